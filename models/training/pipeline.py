"""From a data set to a trained model: the steps that `recourse train` and a training job share.

    splits = split_dataset(dataset, seed)                 encoded, and split in three (models/datasets)
    ensemble = train_local_ensemble(...)                  the black boxes, where they are trained here (models/ensemble)
    model = train(splits, ensemble, config, queries)      the surrogate and the generator, distilled from them

`fit` does the last two in one call. Nothing here prints, reads files or knows an option of the command line: progress
goes to the callbacks, and messages name the setting that is wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from ..config import Config
from ..data.schema import override_table
from ..datasets.dataset import Dataset, Labelled, Splits
from ..ensemble.local import EnsembleProgress, LocalEnsemble, train_local_ensemble
from ..ensemble.recipes import Mode
from ..errors import ConfigError
from ..model import RecourseModel
from .schedule import Report, silent
from .train import train


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model and the ensemble that it was distilled from; `train_seconds` are those of the model alone."""

    model: RecourseModel
    ensemble: LocalEnsemble
    train_seconds: float


def with_overrides(dataset: Dataset, label: str | None, overrides: Mapping[str, object]) -> Dataset:
    """The data set with another label (None: its own) and with overrides that win over its own, key by key."""
    merged = dict(override_table(dataset.overrides))
    for feature, changes in override_table(overrides).items():
        merged[feature] = {**merged.get(feature, {}), **changes}
    return replace(dataset, label=label or dataset.label, overrides={"features": merged})


def check_top_features(config: Config, splits: Splits) -> None:
    """ConfigError for more features than there are; training itself would notice only after minutes."""
    features = len(splits.encoder.schema.features)
    if config.top_features is not None and config.top_features > features:
        raise ConfigError(f"top_features is {config.top_features}, but there are only {features} features.")


def fit(
    splits: Splits,
    members: Sequence[str],
    mode: Mode,
    config: Config,
    query_limit: int,
    seed: int = 0,
    on_member: Callable[[EnsembleProgress], None] | None = None,
    on_step: Report = silent,
) -> Fitted:
    """Train the black boxes, then the model; both learn from the training rows alone."""
    training = splits.training
    ensemble = train_local_ensemble(splits.encoder, training.records, training.labels, mode, members, seed, on_member)
    started = perf_counter()
    model = train(splits, ensemble, config, query_limit, seed, on_step)
    return Fitted(model, ensemble, perf_counter() - started)


def member_accuracy(ensemble: LocalEnsemble, rows: Labelled) -> dict[str, float]:
    """The share of the rows that each member gets right, by its name; the queries are not counted."""
    right = ensemble.predict_proba(rows.records).argmax(axis=2) == rows.labels
    return {name: float(share) for name, share in zip(ensemble.member_names, np.mean(right, axis=1), strict=True)}
