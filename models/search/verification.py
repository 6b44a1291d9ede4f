"""Verified search: up the cost-validity frontier, until the black boxes agree.

METHOD.md, section 6.3. The surrogate's answer at the first cost weight of the path is put to the ensemble. Where too
few models accept it, the answer at the next, lower cost weight is: a little dearer and more robust. Queries say where
on the frontier an answer has to lie. They never make an answer cheaper: what is shrunk until the last of the asked
models just accepts is refused by the next one. Where the whole path fails, the most robust other candidates are tried.
All records are asked together, one candidate each in a round, so that the ensemble sees batches.
"""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Probabilities, Targets
from ..ensemble.protocol import Ensemble, charges_of
from ..ensemble.votes import agreement, answered, votes
from ..model import RecourseModel
from ..space.feasible import FeasibleSet
from .candidates import Candidates
from .local_search import count_changes
from .selection import best_at_cost_weight
from .sparse import sparse_candidates

TOLERANCE = 1e-9
"""Shares of votes that differ by less are equal."""


def verify(
    model: RecourseModel,
    candidates: Candidates,
    target: Targets,
    feasible: FeasibleSet,
    ensemble: Ensemble,
    wanted: float,
    limit: NDArray[np.intp],
    rounds: int,
    known: NDArray[np.bool_] | None = None,
) -> "Verification":
    """Of candidates (n, c) and what local search in `rounds` makes of them: the first found to have the agreement
    `wanted`, or the one that came nearest to it; at most limit (n,) queries a record

    Where nothing may be asked, the answer at the first cost weight of the path. known (n,): whose record as it is was
    asked about already.
    """
    config, everyone = model.config.search.verification, np.arange(len(target))

    def answer(rows: NDArray[np.intp], weight: float) -> Candidates:
        """What the surrogate alone would answer to `rows` (r,) at a cost weight (r, 1)"""
        weights = np.full(len(rows), weight)
        some, within = candidates.take_rows(rows), feasible.rows(rows)
        return best_at_cost_weight(model, some, target[rows], within, weights, 0.0, rounds)

    first = answer(everyone, config.cost_weights[0])
    search = Verification(first, target, feasible, ensemble, wanted, limit)
    if known is not None:
        search.know_origins(np.flatnonzero(known))
    search.ask(np.flatnonzero(search.open), first.take_rows(np.flatnonzero(search.open)))
    for weight in config.cost_weights[1:]:
        rows = np.flatnonzero(search.open)
        if not len(rows):
            return search
        search.ask(rows, answer(rows, weight))
    rows = np.flatnonzero(search.open)
    if len(rows):
        search.try_in_turn(rows, _most_agreed(model, candidates.take_rows(rows), target[rows], feasible.rows(rows)))
    return search


def _most_agreed(model: RecourseModel, candidates: Candidates, target: Targets, feasible: FeasibleSet) -> Candidates:
    """Of candidates (n, c) the most robust that the limit of changes allows, the best first (n, s)"""
    if feasible.most is not None or feasible.rules is not None:
        candidates = sparse_candidates(model, candidates, target, feasible, np.zeros(len(target)))
    agreed = np.where(candidates.allowed, candidates.agreement, -1.0)
    order = np.argsort(-agreed, axis=1, kind="stable")
    return candidates.take(order[:, : model.config.search.verification.fallbacks])


class Verification:
    """What is known of the answers to n records: `ask` puts candidates to the ensemble, and keeps what is better.

    best       (n, 1)  the best that was found
    found      (n,)    whether the agreement was reached
    votes      (m, n)  of the best; answered (m, n) says whose
    agreement  (n,)    of the best, NaN where nothing was asked
    unchanged  (n,)    the agreement of the record as it is, NaN where that was not asked
    queries    (n,)    how many records were put to the ensemble
    charged    (n,)    how many of them were new to it, and cost a query
    """

    def __init__(
        self,
        start: Candidates,
        target: Targets,
        feasible: FeasibleSet,
        ensemble: Ensemble,
        wanted: float,
        limit: NDArray[np.intp],
    ) -> None:
        """start (n, 1): the answer until something is asked"""
        self.best, self.target, self.feasible = start, target, feasible
        self.ensemble, self.wanted, self.limit = ensemble, wanted, limit
        count, members = len(start.cost), len(ensemble.member_names)
        self.found = np.zeros(count, dtype=np.bool_)
        self.agreement, self.unchanged = np.full((2, count), np.nan)
        self.votes = np.zeros((members, count), dtype=np.bool_)
        self.answered = np.zeros((members, count), dtype=np.bool_)
        self.queries = np.zeros(count, dtype=np.intp)
        self.charged = np.zeros(count, dtype=np.intp)
        self._asked: list[set[bytes]] = [set() for _ in range(count)]

    @property
    def open(self) -> NDArray[np.bool_]:
        """Which records still lack an answer that holds, and may ask on (n,)"""
        return ~self.found & (self.queries < self.limit)

    def know_origins(self, rows: NDArray[np.intp]) -> None:
        """What the ensemble says of the records of `rows` (r,) as they are is known: they are not asked about again."""
        for row in rows.tolist():
            self._asked[row].add(self.feasible.origin[row].tobytes())

    def heard(self, row: int) -> set[bytes]:
        """The records that were asked about for a row, as bytes"""
        return self._asked[row]

    def try_in_turn(self, rows: NDArray[np.intp], candidates: Candidates) -> None:
        """Ask the candidates (r, s) of `rows` (r,), the first of each first, until one holds"""
        for position in range(candidates.cost.shape[1]):
            still = np.flatnonzero(self.open[rows])
            if not len(still):
                return
            self.ask(rows[still], candidates.take_rows(still).take(np.full((len(still), 1), position)))

    def ask(self, rows: NDArray[np.intp], asked: Candidates) -> None:
        """Put one candidate (r, 1) of each of `rows` (r,) to the ensemble, and keep what is better

        What is not allowed is not asked about. Nor is a record that was asked about before: neighbours on the path may
        be the same record.
        """
        names, allowed = [record.tobytes() for record in asked.records[:, 0]], asked.allowed[:, 0]
        fresh = [i for i, name in enumerate(names) if allowed[i] and name not in self._asked[rows[i]]]
        new = np.array(fresh, dtype=np.intp)
        if not len(new):
            return
        for position in new.tolist():
            self._asked[rows[position]].add(names[position])
        said = self.ensemble.predict_proba(asked.records[new, 0])
        self.queries[rows[new]] += 1
        self.charged[rows[new]] += charges_of(self.ensemble, len(new))
        self.accept(rows[new], asked.take_rows(new), said)

    def accept(self, rows: NDArray[np.intp], asked: Candidates, said: Probabilities) -> None:
        """Keep those of asked (r, 1) that have more votes than the best of `rows` (r,); said (m, r, K)"""
        share = agreement(said, self.target[rows])
        same = count_changes(asked.records[:, 0], self.feasible.origin[rows]) == 0
        self.unchanged[rows[same]] = share[same]
        better = ~(share <= self.agreement[rows])
        taken = rows[better]
        self.best = self.best.replace_rows(taken, asked.take_rows(np.flatnonzero(better)))
        self.agreement[taken] = share[better]
        self.votes[:, taken] = votes(said, self.target[rows])[:, better]
        self.answered[:, taken] = answered(said)[:, better]
        self.found[rows] |= share >= self.wanted - TOLERANCE
