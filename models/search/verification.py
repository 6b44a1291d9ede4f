"""Verified search: candidates are put to the black boxes until the cheapest that has the agreement asked for is found.

METHOD.md, section 6.3 and 6.4. The levels of a record's weight path rise in expected agreement and in cost, so the
search bisects them: a level that holds sends it down, one that fails sends it up. The queries that are left go into
shrinking the answer that holds, or, where no level holds, into the most robust other candidates. Where queries are
plenty, random directions have a share in the shrinking: they find what the surrogate overlooks. All records are asked
together, one candidate each in a round, so that the ensemble sees batches.
"""

from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Probabilities, Targets
from ..config import VerificationConfig
from ..ensemble.protocol import Ensemble, charges_of
from ..ensemble.votes import agreement, answered, votes
from ..model import RecourseModel
from ..space.encoding import Encoder
from ..space.feasible import FeasibleSet
from .candidates import Candidates, score_endpoints
from .local_search import count_changes, moves_of

TOLERANCE = 1e-9
"""Shares of votes and costs that differ by less are equal."""


def verify(
    model: RecourseModel,
    levels: Candidates,
    fallbacks: Candidates,
    target: Targets,
    feasible: FeasibleSet,
    ensemble: Ensemble,
    wanted: float,
    limit: NDArray[np.intp],
) -> "Verification":
    """The cheapest candidate that was found to have the agreement `wanted`, or the one that came nearest to it.

    levels (n, L) by rising expected agreement; fallbacks (n, s), other candidates; at most limit (n,) queries a record
    Where nothing may be asked, the first level that changes something.
    """
    changed = count_changes(levels.records, feasible.origin[:, None]) > 0
    start = levels.take(changed.argmax(axis=1)[:, None])
    search = Verification(model, start, target, feasible, ensemble, wanted, limit)
    search.bisect(levels)
    search.try_fallbacks(fallbacks)
    search.shrink()
    return search


class Verification:
    """The verified search of n records: it proposes candidates, asks, and accepts what is better.

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
        model: RecourseModel,
        start: Candidates,
        target: Targets,
        feasible: FeasibleSet,
        ensemble: Ensemble,
        wanted: float,
        limit: NDArray[np.intp],
    ) -> None:
        """start (n, c): the first of each is the answer until something is asked"""
        self.model, self.target, self.feasible = model, target, feasible
        self.ensemble, self.wanted, self.limit = ensemble, wanted, limit
        self.config = model.config.search.verification
        self.plenty = (limit > self.config.plenty) & model.config.search.use_random_directions
        count, members = len(start.cost), len(ensemble.member_names)
        self.best = start.take(np.zeros((count, 1), dtype=np.intp))
        self.found = np.zeros(count, dtype=np.bool_)
        self.agreement, self.unchanged = np.full((2, count), np.nan)
        self.votes = np.zeros((members, count), dtype=np.bool_)
        self.answered = np.zeros((members, count), dtype=np.bool_)
        self.queries = np.zeros(count, dtype=np.intp)
        self.charged = np.zeros(count, dtype=np.intp)
        self._heard: list[dict[bytes, bool]] = [{} for _ in range(count)]
        # The same directions for every record in each of its rounds, whatever else is in the batch.
        self._random = np.random.default_rng(0)

    @property
    def may_ask(self) -> NDArray[np.bool_]:
        """Whose queries are not used up (n,)"""
        return self.queries < self.limit

    def bisect(self, levels: Candidates) -> None:
        """Bisect levels (n, L): what lies at `low` or below fails, what lies at `high` or above holds."""
        count, size = levels.cost.shape
        low, high = np.full(count, -1), np.full(count, size)
        while len(rows := np.flatnonzero((high - low > 1) & self.may_ask)):
            middle = (low[rows] + high[rows]) // 2
            holds = self.ask(rows, levels.take_rows(rows).take(middle[:, None]))
            high[rows[holds]], low[rows[~holds]] = middle[holds], middle[~holds]

    def try_fallbacks(self, fallbacks: Candidates) -> None:
        """Where no level holds, ask fallbacks (n, s), the most robust first."""
        order = np.argsort(-fallbacks.agreement, axis=1, kind="stable")
        for position in range(order.shape[1]):
            rows = np.flatnonzero(~self.found & self.may_ask)
            if not len(rows):
                return
            self.ask(rows, fallbacks.take_rows(rows).take(order[rows, position : position + 1]))

    def shrink(self) -> None:
        """Ask for what makes an answer that holds cheaper, until too many attempts in a row have failed."""
        failures = np.zeros(len(self.found), dtype=np.intp)
        patience = np.where(self.plenty, self.limit // 2, self.config.patience)
        for by_chance in cycle((False, True)):
            rows = np.flatnonzero(self.found & self.may_ask & (failures < patience))
            if not len(rows):
                return
            possible, asked = self.propose(rows, by_chance)
            without = rows[~possible]
            failures[without] = np.where(self.plenty[without], failures[without] + 1, patience[without])
            rows = rows[possible]
            failures[rows] = np.where(self.ask(rows, asked), 0, failures[rows] + 1)

    def propose(self, rows: NDArray[np.intp], by_chance: bool) -> tuple[NDArray[np.bool_], Candidates]:
        """For each of `rows` (r,) the cheaper candidate with most to gain -> where there is one (r,), and those (p, 1)

        by_chance: where queries are plenty, one of the random directions instead
        """
        best, target, feasible = self.best.take_rows(rows), self.target[rows], self.feasible.rows(rows)
        moves = _ways_back(self.model, best, target, feasible)
        gain = expected_gain(best, moves, self.config.steepness)
        if self.plenty.any():
            directions = random_directions(self.model, best, target, feasible, self._random)
            gain = self._gain_with_directions(gain, best, directions, self.plenty[rows], by_chance)
            moves = moves.beside(directions)
        for position, row in enumerate(rows):
            for move in range(gain.shape[1]):
                if moves.records[position, move].tobytes() in self._heard[row]:
                    gain[position, move] = -np.inf
        choice = gain.argmax(axis=1)
        possible: NDArray[np.bool_] = np.isfinite(gain[np.arange(len(rows)), choice])
        return possible, moves.take(choice[:, None]).take_rows(np.flatnonzero(possible))

    def ask(self, rows: NDArray[np.intp], asked: Candidates) -> NDArray[np.bool_]:
        """Put one candidate (r, 1) of each of `rows` (r,) to the ensemble, and accept what is better -> which hold (r,)

        A record that was asked about before is not asked about again: levels of the path may be the same record.
        """
        names = [record.tobytes() for record in asked.records[:, 0]]
        new = np.array([i for i, name in enumerate(names) if name not in self._heard[rows[i]]], dtype=np.intp)
        if len(new):
            said = self.ensemble.predict_proba(asked.records[new, 0])
            self.queries[rows[new]] += 1
            self.charged[rows[new]] += charges_of(self.ensemble, len(new))
            holds = self.accept(rows[new], asked.take_rows(new), said)
            for place, held in zip(new.tolist(), holds.tolist(), strict=True):
                self._heard[rows[place]][names[place]] = held
        return np.array([self._heard[row][name] for row, name in zip(rows, names, strict=True)], dtype=np.bool_)

    def accept(self, rows: NDArray[np.intp], asked: Candidates, said: Probabilities) -> NDArray[np.bool_]:
        """Keep those of asked (r, 1) that are better than the best of `rows` (r,), by what the ensemble said (m, r, K).

        What holds is better than what does not; of two that hold the cheaper one, of others the one with more votes.
        Returns which hold (r,).
        """
        share = agreement(said, self.target[rows])
        holds: NDArray[np.bool_] = share >= self.wanted - TOLERANCE
        same = count_changes(asked.records[:, 0], self.feasible.origin[rows]) == 0
        self.unchanged[rows[same]] = share[same]
        found, known = self.found[rows], np.where(np.isnan(self.agreement[rows]), -1.0, self.agreement[rows])
        cheaper = asked.cost[:, 0] < self.best.cost[rows, 0]
        better = np.where(holds & found, cheaper, (holds & ~found) | (~found & (share > known)))
        taken = rows[better]
        self.best = self.best.replace_rows(taken, asked.take_rows(np.flatnonzero(better)))
        self.agreement[taken] = share[better]
        self.votes[:, taken] = votes(said, self.target[rows])[:, better]
        self.answered[:, taken] = answered(said)[:, better]
        self.found[rows] |= holds
        return holds

    def _gain_with_directions(
        self, gain: Floats, best: Candidates, directions: Candidates, plenty: NDArray[np.bool_], by_chance: bool
    ) -> Floats:
        """gain (n, c) with that of directions (n, t) beside it; by chance, the directions alone are chosen among

        The surrogate may be wrong about what lies near: left alone it keeps to its own error.
        """
        chance = self._random.random(directions.cost.shape[1])
        other = expected_gain(best, directions, self.config.steepness)
        if by_chance:
            other = np.where(np.isfinite(other), chance, -np.inf)
            gain = np.where(plenty[:, None] & np.isfinite(other).any(axis=1, keepdims=True), -np.inf, gain)
        return np.concatenate([gain, np.where(plenty[:, None], other, -np.inf)], axis=1)


def expected_gain(best: Candidates, moves: Candidates, steepness: float) -> Floats:
    """What each of moves (n, c) saves of the cost of best (n, 1), times the chance that it holds; -inf: nothing"""
    saving = best.cost - moves.cost
    gain: Floats = np.where(saving > TOLERANCE, saving * moves.agreement**steepness, -np.inf)
    return gain


def _ways_back(model: RecourseModel, best: Candidates, target: Targets, feasible: FeasibleSet) -> Candidates:
    """From best (n, 1): single-feature moves, and points on the straight way back to the record (n, c)"""
    shares = np.array(model.config.search.verification.way_back)
    origin, end = model.encoder.encode(feasible.origin)[:, None], best.points
    straight = score_endpoints(model, origin + shares[None, :, None] * (end - origin), target, feasible)
    return straight.beside(moves_of(model, best, target, feasible))


def random_directions(
    model: RecourseModel, best: Candidates, target: Targets, feasible: FeasibleSet, random: np.random.Generator
) -> Candidates:
    """From best (n, 1): nearer points in other directions, measured (n, directions); the same for all records"""
    config = model.config.search.verification
    origin = model.encoder.encode(feasible.origin)[:, None]
    step = best.points - origin
    length = np.linalg.norm(step, axis=2, keepdims=True)
    aside = _unit(step) + _random_steps(model.encoder, config, random)
    kept = np.repeat(np.array(config.kept), config.directions // len(config.kept))[:, None]
    return score_endpoints(model, origin + kept * length * _unit(aside), target, feasible)


def _random_steps(encoder: Encoder, config: VerificationConfig, random: np.random.Generator) -> Floats:
    """Random steps (`directions`, D), of each spread in turn; a feature of many columns weighs as one of two"""
    spreads, owner = np.resize(np.array(config.spreads), config.directions)[:, None], encoder.feature_of_column
    share = np.sqrt(np.minimum(2 / np.bincount(owner)[owner], 1.0))
    steps: Floats = _unit(share * random.normal(size=(config.directions, encoder.width))) * spreads
    return steps


def _unit(steps: Floats) -> Floats:
    """steps (..., D) at length 1"""
    units: Floats = steps / np.maximum(np.linalg.norm(steps, axis=-1, keepdims=True), 1e-12)
    return units
