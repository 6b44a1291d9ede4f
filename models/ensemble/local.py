"""The lender's ensemble in local form: trained here, asked in this process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from models.encoding import Encoder
from models.ensemble.member import Codes, Member, require_every_class
from models.ensemble.recipes import MEMBER_NAMES, SHORTLISTS, Mode
from models.ensemble.selection import FOLDS, choose_recipe
from models.errors import ConfigError, DataError
from models.matrix import Records

Stage: TypeAlias = Literal["search", "fit"]


@dataclass(frozen=True)
class LocalEnsemble:
    """Members that share one encoder; implements models.ensemble.protocol.Ensemble."""

    encoder: Encoder
    members: tuple[Member, ...]
    classes: tuple[str, ...]

    @property
    def member_names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> probabilities (m, n, K)"""
        if len(records) == 0:
            return np.empty((len(self.members), 0, len(self.classes)))
        x = self.encoder.encode(records)
        return np.stack([member.predict_proba(x) for member in self.members])


@dataclass(frozen=True, slots=True)
class EnsembleProgress:
    """One unit of work was done: a recipe was scored ("search") or a member was trained ("fit")."""

    member: str
    stage: Stage
    done: int
    total: int


class _Tally:
    """Counts the units of work and tells who asked."""

    def __init__(self, total: int, progress: Callable[[EnsembleProgress], None] | None) -> None:
        self.done, self.total, self.progress = 0, total, progress

    def add(self, member: str, stage: Stage) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(EnsembleProgress(member, stage, self.done, self.total))


def train_local_ensemble(
    encoder: Encoder,
    records: Records,
    labels: Codes,
    mode: Mode = "quick",
    members: Sequence[str] = MEMBER_NAMES,
    seed: int = 0,
    progress: Callable[[EnsembleProgress], None] | None = None,
) -> LocalEnsemble:
    """records (n, F), labels (n,) class codes of training (and validation) rows; the test split has no business here.

    `quick` takes good defaults, `tuned` searches the paper's grid. The members come in the paper's order, whatever the
    order of `members`. One core is used; the same seed gives the same ensemble. An error of `progress` ends the
    training.
    """
    shortlists = {name: SHORTLISTS[mode][name] for name in _check_names(members)}
    classes, x = encoder.schema.classes, encoder.encode(records)
    y = _check_labels(labels, len(x), len(classes))
    tally = _Tally(sum(shortlist.units for shortlist in shortlists.values()), progress)
    trained: list[Member] = []
    # Without the limit the linear algebra of these small models is slower: its threads wait for each other.
    with threadpool_limits(limits=1):
        for name, shortlist in shortlists.items():
            recipe = choose_recipe(shortlist, x, y, len(classes), seed, partial(tally.add, name, "search"))
            trained.append(recipe.fit(x, y, len(classes), seed))
            tally.add(name, "fit")
    return LocalEnsemble(encoder, tuple(trained), classes)


def _check_names(members: Sequence[str]) -> list[str]:
    """The members that were asked for, in the paper's order."""
    for name in members:
        if name not in MEMBER_NAMES:
            raise ConfigError(f"There is no ensemble member '{name}'; choose from {', '.join(MEMBER_NAMES)}.")
    if not members:
        raise ConfigError(f"The ensemble needs at least one member of {', '.join(MEMBER_NAMES)}.")
    return [name for name in MEMBER_NAMES if name in members]


def _check_labels(labels: Codes, rows: int, classes: int) -> Codes:
    """The labels (n,) as class codes; each class needs a row in each fold of a cross-validation."""
    y = np.asarray(labels, dtype=np.int64)
    if len(y) != rows:
        raise DataError(f"There are {rows} training records but {len(y)} labels.")
    require_every_class(y, classes)
    counts = np.bincount(y, minlength=classes)
    if counts.min() < FOLDS:
        code = int(counts.argmin())
        raise DataError(f"Class {code} has {counts[code]} training rows; {FOLDS} folds need at least {FOLDS}.")
    return y
