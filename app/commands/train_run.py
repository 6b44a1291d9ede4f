"""The work of `recourse train`: data, ensemble, training, artifact; nothing is written before all of it is done."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from rich.console import Console

from app.commands.choices import TrainSettings, Tuning
from app.commands.data_run import find_data
from app.commands.files import read_overrides
from app.commands.progress import Bars
from app.commands.train import TrainOrder
from app.commands.train_config import choose_members, make_config
from models.config import Config
from models.data.columns import check_columns
from models.data.schema import override_table
from models.datasets.dataset import Dataset, Labelled, Study, make_study
from models.device import find_device
from models.ensemble.local import LocalEnsemble, train_local_ensemble
from models.ensemble.recipes import Mode
from models.errors import ConfigError
from models.model import RecourseModel
from models.storage.artifact import save_model
from models.training.train import train


@dataclass(frozen=True, eq=False)
class Pair:
    """A model, and the ensemble that it was distilled from."""

    model: RecourseModel
    ensemble: LocalEnsemble
    train_seconds: float


@dataclass(frozen=True, eq=False)
class Trained:
    """What there is to tell at the end."""

    order: TrainOrder
    name: str
    study: Study
    model: RecourseModel
    members: tuple[str, ...]
    accuracy: tuple[float, ...]
    query_limit: int
    content_hash: str
    seconds: float


def run_training(order: TrainOrder, console: Console) -> Trained:
    """Everything that can be refused is refused before the first model is trained."""
    started = perf_counter()
    members, (config, limit) = choose_members(order.settings.members), make_config(order.settings)
    find_device(config.device)
    dataset = read_data(order.data, order.label, order.schema)
    study = make_study(dataset, order.seed)
    check_top_features(config, study)
    with Bars(console) as bars:
        pair = train_pair(study, order.settings, members, config, limit, order.seed, bars)
    content_hash = save_model(pair.model, order.out, pair.ensemble)
    accuracy, names = _accuracy(pair.ensemble, study.test), pair.ensemble.member_names
    seconds = perf_counter() - started
    return Trained(order, dataset.name, study, pair.model, names, accuracy, limit, content_hash, seconds)


def read_data(data: str, label: str | None, schema: Path | None) -> Dataset:
    """DATA of the command line with the overrides of its schema file."""
    overrides = read_overrides(schema) if schema is not None else {}
    dataset = with_overrides(find_data(data, label), label, overrides)
    _check_kinds(dataset)
    return dataset


def with_overrides(dataset: Dataset, label: str | None, overrides: Mapping[str, object]) -> Dataset:
    """The data set with the label that was asked for; a file's overrides win over its own."""
    merged = dict(override_table(dataset.overrides))
    for feature, changes in override_table(overrides).items():
        merged[feature] = {**merged.get(feature, {}), **changes}
    return replace(dataset, label=label or dataset.label, overrides={"features": merged})


def _check_kinds(dataset: Dataset) -> None:
    """The schema file may say of a column of numbers or dates that it is a category."""
    said = {name for name, changes in override_table(dataset.overrides).items() if "kind" in changes}

    def way_out(name: str) -> str:
        wanted = json.dumps({"features": {name: {"kind": "categorical"}}}, ensure_ascii=False)
        return f"say with --schema that it is a category: {wanted}"

    check_columns(dataset.frame, {dataset.label, *said}, way_out)


def check_top_features(config: Config, study: Study) -> None:
    """The choice of features comes late in training; this does not."""
    features = len(study.encoder.schema.features)
    if config.top_features is not None and config.top_features > features:
        raise ConfigError(f"--top-features is {config.top_features}, but there are only {features} features.")


def train_pair(
    study: Study,
    settings: TrainSettings,
    members: tuple[str, ...],
    config: Config,
    limit: int,
    seed: int,
    bars: Bars,
) -> Pair:
    """The black boxes, then the model; both learn from the training split alone."""
    mode: Mode = "quick" if settings.tuning is Tuning.QUICK else "tuned"
    training = study.training
    ensemble = train_local_ensemble(
        study.encoder, training.records, training.labels, mode, members, seed, bars.ensemble
    )
    started = perf_counter()
    model = train(
        study.encoder,
        training,
        study.validation,
        ensemble,
        config,
        seed=seed,
        query_limit=limit,
        report=bars.report,
    )
    return Pair(model, ensemble, perf_counter() - started)


def _accuracy(ensemble: LocalEnsemble, test: Labelled) -> tuple[float, ...]:
    """The share of the test rows that each member gets right."""
    right = ensemble.predict_proba(test.records).argmax(axis=2) == test.labels
    return tuple(float(share) for share in right.mean(axis=1))
