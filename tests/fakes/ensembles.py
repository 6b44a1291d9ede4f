"""A lender for the tests: it answers by a formula, counts what it was asked, and fails when it is told to."""

import numpy as np
from numpy.typing import NDArray

from app.concurrency import Deadline
from app.ensembles.metered import BoxAnswer, MissingVote, Prepared
from models.arrays import Records

MEMBERS = ("forest", "boosting", "network")
CLASSES = ("refused", "approved")


def formula(records: Records) -> NDArray[np.float64]:
    """records (n, F) -> (3, n, 2): each member is a logistic function of the record's sum, missing values left out"""
    scores = np.nansum(records, axis=1)
    approved = 1.0 / (1.0 + np.exp(-scores[None, :] * np.array([[0.5], [1.0], [2.0]])))
    return np.stack([1.0 - approved, approved], axis=2)


class CountingEnsemble:
    """An `Ensemble` that remembers every record that it was asked."""

    member_names = MEMBERS
    classes = CLASSES

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.silent: set[int] = set()

    @property
    def records_seen(self) -> int:
        return sum(self.calls)

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        self.calls.append(len(records))
        probabilities = formula(records)
        probabilities[list(self.silent)] = np.nan
        return probabilities


class FlakyBox:
    """A `BlackBox` that fails by a script: each call takes the next set of failing members from `script`."""

    member_names = MEMBERS
    classes = CLASSES

    def __init__(self, script: list[set[int]], passing: bool = True) -> None:
        self.script = script
        self.passing = passing
        self.asked: list[tuple[int, ...]] = []
        self.resting: set[int] = set()

    def prepare(self, records: Records, members: tuple[int, ...], deadline: Deadline) -> Prepared:
        reached = tuple(m for m in members if m not in self.resting)
        missing = tuple(
            MissingVote(MEMBERS[m], "failed before and rests now", True) for m in members if m in self.resting
        )
        return Prepared(reached, missing, lambda: self._ask(records, reached))

    def _ask(self, records: Records, members: tuple[int, ...]) -> BoxAnswer:
        self.asked.append(members)
        failing = self.script.pop(0) if self.script else set()
        probabilities = formula(records)[list(members)]
        probabilities[[m in failing for m in members]] = np.nan
        missing = (MissingVote(MEMBERS[m], "status 503", self.passing) for m in members if m in failing)
        return BoxAnswer(probabilities, tuple(missing))
