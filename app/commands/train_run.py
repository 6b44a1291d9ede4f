"""The work of `recourse train`: data, ensemble, training, artifact; nothing is written before all of it is done."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console

from app.commands.data_run import find_data
from app.commands.files import read_overrides
from app.commands.progress import Bars
from app.commands.train import TrainOrder
from models.artifact import save_model
from models.config import PRESETS, Config
from models.datasets import Dataset, Split, split
from models.device import find_device
from models.encoding import Encoder
from models.ensemble.local import LocalEnsemble, train_local_ensemble
from models.ensemble.recipes import MEMBER_NAMES
from models.errors import ArtifactError, ConfigError
from models.frames import labels_to_codes, to_records
from models.infer import infer_schema
from models.model import RecourseModel
from models.schema import override_table
from models.scoring import Targets
from models.training import Labelled, train


@dataclass(frozen=True, eq=False)
class Prepared:
    """A data set, ready to be learned: all rows, which of them are for what, and the encoder of the training rows."""

    name: str
    rows: Labelled
    split: Split
    encoder: Encoder

    def part(self, rows: np.ndarray) -> Labelled:
        return Labelled(self.rows.records[rows], self.rows.labels[rows])


@dataclass(frozen=True, eq=False)
class Trained:
    """What there is to tell at the end."""

    order: TrainOrder
    prepared: Prepared
    model: RecourseModel
    members: tuple[str, ...]
    accuracy: tuple[float, ...]
    query_limit: int
    content_hash: str
    seconds: float


def run_training(order: TrainOrder, console: Console) -> Trained:
    """Everything that can be refused is refused before the first model is trained."""
    started = perf_counter()
    check_out(order.out)
    members = _members(order.members)
    config, limit = _config(order)
    find_device(order.device)
    overrides = read_overrides(order.schema) if order.schema is not None else {}
    prepared = prepare(find_data(order.data, order.label), order.label, overrides, order.seed)
    training, validation = prepared.part(prepared.split.train), prepared.part(prepared.split.validation)
    with Bars(console) as bars:
        ensemble = train_local_ensemble(
            prepared.encoder, training.records, training.labels, order.tuning.value, members, order.seed, bars.ensemble
        )
        model = train(
            prepared.encoder,
            training,
            validation,
            ensemble,
            config,
            seed=order.seed,
            query_limit=limit,
            report=bars.report,
        )
    content_hash = save_model(model, order.out, ensemble)
    accuracy = _accuracy(ensemble, prepared.part(prepared.split.test))
    names = ensemble.member_names
    return Trained(order, prepared, model, names, accuracy, limit, content_hash, perf_counter() - started)


def check_out(out: Path) -> None:
    """An existing folder is never written into, and a hopeless one is refused at once."""
    if out.exists() or out.is_symlink():
        raise ArtifactError(f"The folder '{out}' exists already; choose another for --out, or remove it first.")
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ArtifactError(f"'{out}' cannot be made, because '{above}' is not a folder that may be written.")


def prepare(dataset: Dataset, label: str | None, overrides: Mapping[str, object], seed: int) -> Prepared:
    """The rows as a record matrix, split 6:2:2; the file's overrides win over those of a built-in data set."""
    name = label or dataset.label
    merged = dict(override_table(dataset.overrides))
    for feature, changes in override_table(overrides).items():
        merged[feature] = {**merged.get(feature, {}), **changes}
    schema = infer_schema(dataset.frame, name, {"features": merged})
    rows = Labelled(to_records(schema, dataset.frame), labels_to_codes(schema, dataset.frame[name]))
    parts = split(rows.labels, seed)
    return Prepared(dataset.name, rows, parts, Encoder.fit(schema, rows.records[parts.train]))


def _members(text: str | None) -> tuple[str, ...]:
    """a,b -> (a, b); checked here, before any data is read"""
    if text is None:
        return MEMBER_NAMES
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names or (text,):
        if name not in MEMBER_NAMES:
            raise ConfigError(f"There is no ensemble member '{name}'; choose from {', '.join(MEMBER_NAMES)}.")
    return names


def _config(order: TrainOrder) -> tuple[Config, int]:
    """The preset as the options change it, and the query limit; a larger limit pays for more rounds."""
    config = scale(PRESETS[order.preset.value](), order.effort)
    config = replace(config, device=order.device, top_features=order.top_features)
    if order.queries is None:
        return config, config.queries
    rounds = max(config.distill.rounds, order.queries // max(config.distill.queries, 1))
    return replace(config, distill=replace(config.distill, rounds=rounds)), order.queries


def scale(config: Config, effort: float) -> Config:
    """The same training with `effort` times the steps; the queries stay."""
    if not 0 < effort <= 10:
        raise ConfigError(f"--effort is {effort}; it must lie above 0 and at most at 10.")

    def scaled(steps: int) -> int:
        return math.ceil(steps * effort)

    generator, distill = config.generator, config.distill
    epochs = None if generator.epochs is None else scaled(generator.epochs)
    return replace(
        config,
        surrogate=replace(config.surrogate, steps=scaled(config.surrogate.steps)),
        generator=replace(generator, steps=scaled(generator.steps), epochs=epochs),
        distill=replace(
            distill,
            surrogate_steps=scaled(distill.surrogate_steps),
            generator_steps=scaled(distill.generator_steps),
        ),
    )


def _accuracy(ensemble: LocalEnsemble, test: Labelled) -> tuple[float, ...]:
    """The share of the test rows that each member gets right."""
    named: Targets = ensemble.predict_proba(test.records).argmax(axis=2)
    return tuple(float(share) for share in (named == test.labels).mean(axis=1))
