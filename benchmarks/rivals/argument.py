"""Argumentative ensembling (Jiang et al., 2024): which of the models' own counterfactuals stand together.

Each model brings the nearest training record that it puts into the target class. Models and counterfactuals are the
arguments: two models attack each other where they see the applicant differently, a model and a counterfactual where the
model refuses it; a model and its own counterfactual support each other. Of the accepted counterfactuals the nearest is
the answer.

s-preferred  a model is accepted only with its own counterfactual, and each accepted model takes all of them
d-preferred  direct attacks alone decide, so that a model may be accepted whose own counterfactual is not: kinder than
             the definition, whose supported and indirect attacks let in no larger sets than s-preferred does

Attacks are mutual here, so that every set without a conflict defends itself, and the preferred sets are the largest.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals.rival import NO_QUERIES, CountedEnsemble, Problem, Queries, squared_distances
from models.arrays import Records, Targets

Semantics: TypeAlias = Literal["s", "d"]
Valid: TypeAlias = NDArray[np.bool_]
ROWS = 256
"""Records whose distances to the training split are held at once."""


class Argument:
    """Nearest-neighbour counterfactuals, selected by argumentation."""

    def __init__(self, semantics: Semantics = "s") -> None:
        self.semantics: Semantics = semantics
        self._counted: CountedEnsemble | None = None

    @property
    def name(self) -> str:
        return "argument" if self.semantics == "s" else "argument-d"

    @property
    def queries(self) -> Queries:
        return NO_QUERIES if self._counted is None else self._counted.queries

    @property
    def note(self) -> str:
        kind = "s-preferred" if self.semantics == "s" else "d-preferred over direct attacks alone"
        return f"{kind}; every training record is put to the ensemble once"

    def fit(self, problem: Problem) -> None:
        self._counted = CountedEnsemble(problem.ensemble)
        self._encoder, self._training = problem.encoder, problem.training.records
        self._points = problem.encoder.encode(self._training)
        self._said = self._counted.predict_proba(self._training).argmax(axis=2)

    def explain(self, records: Records, target: Targets) -> Records:
        assert self._counted is not None, "fit comes first"
        seen = self._counted.predict_proba(records).argmax(axis=2)
        answers = records.copy()
        for start in range(0, len(records), ROWS):
            rows = slice(start, start + ROWS)
            distances = squared_distances(self._encoder.encode(records[rows]), self._points)
            for row, near in enumerate(distances, start):
                found = self._answer(near, seen[:, row], int(target[row]))
                if found is not None:
                    answers[row] = self._training[found]
        return answers

    def _answer(self, distances: NDArray[np.float64], seen: NDArray[np.intp], target: int) -> int | None:
        """distances (t,) to the training records, seen (m,) -> the row of the accepted one, None where there is none"""
        own: list[int] = []
        members: list[int] = []
        for member, said in enumerate(self._said):
            accepted = np.flatnonzero(said == target)
            if len(accepted):
                members.append(member)
                own.append(int(accepted[distances[accepted].argmin()]))
        if not own:
            return None
        valid = self._said[np.ix_(members, own)] == target
        chosen = preferred(valid, seen[members], distances[own], self.semantics)
        return own[min(chosen, key=lambda position: distances[own[position]])]


def preferred(
    valid: Valid, seen: NDArray[np.intp], distances: NDArray[np.float64], semantics: Semantics
) -> tuple[int, ...]:
    """The counterfactuals of the largest accepted set; among equals, that of more models, then of the nearest one.

    valid (m, m): whether model i takes the counterfactual of model j; seen (m,) how each sees the applicant.
    """
    sets = [(models, _accepted(valid, models, semantics)) for models in _agreeing(seen)]

    def rank(accepted: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[int, int, float]:
        models, found = accepted
        return len(models) + len(found), len(models), -float(distances[list(found)].min())

    return max((accepted for accepted in sets if accepted[1]), key=rank)[1]


def _agreeing(seen: NDArray[np.intp]) -> Iterator[tuple[int, ...]]:
    """Every set of models that see the applicant alike."""
    members = range(len(seen))
    for size in range(1, len(seen) + 1):
        for models in combinations(members, size):
            if len({int(seen[model]) for model in models}) == 1:
                yield models


def _accepted(valid: Valid, models: tuple[int, ...], semantics: Semantics) -> tuple[int, ...]:
    """The counterfactuals that these models accept together; none where the semantics refuses the models."""
    taken = np.flatnonzero(valid[list(models)].all(axis=0)).tolist()
    if semantics == "d":
        return tuple(taken)
    return models if set(models) <= set(taken) else ()
