"""Verified search: candidates are put to the black boxes until the cheapest that has the agreement asked for is found.

The rungs of a record's ladder rise in expected agreement and in cost, so the search halves them: a rung that holds
sends it down, one that fails sends it up. What is left of the query limit then goes into shrinking the answer that
holds, or, where no rung holds, into the most robust other candidates; where the limit is high, chance has a say in the
shrinking too. All records are asked together, a round at a time, so that the ensemble sees batches.

Directions beside an answer's own: where queries are plenty, chance finds what the surrogate overlooks.
"""

from dataclasses import dataclass
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Records, Targets
from ..ensemble.protocol import Ensemble, charges_of
from ..ensemble.votes import agreement, answered, votes
from ..model import RecourseModel
from ..space.feasible import FeasibleSet
from .candidates import Candidates, measure
from .local_search import moves_of

PATIENCE = 4
"""So many failed attempts to shrink an answer end the attempts."""
PLENTY = 20
"""With a higher limit than this, other directions are tried as well, and half of the limit may fail in a row."""
FRACTIONS = (0.4, 0.55, 0.7, 0.8, 0.87, 0.93, 0.97)
"""How much of an answer's change is kept on the straight way back."""
STEEPNESS = 4.0
"""The chance that all models agree is taken as the expected agreement to this power."""


@dataclass(frozen=True, eq=False)
class Verified:
    """What was asked, and the best that was found (n, 1).

    found      (n,)    whether the agreement was reached
    votes      (m, n)  of the best; answered (m, n) says whose
    agreement  (n,)    of the best, NaN where nothing was asked
    queries    (n,)    how many records were put to the ensemble
    charged    (n,)    how many of them were new to it, and cost a query
    """

    found: NDArray[np.bool_]
    best: Candidates
    votes: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    agreement: Floats
    queries: NDArray[np.intp]
    charged: NDArray[np.intp]


class _State:
    """The search of n records, as it goes."""

    def __init__(self, start: Candidates, members: int) -> None:
        count = len(start.cost)
        self.best = start.take(np.zeros((count, 1), dtype=np.intp))
        self.found = np.zeros(count, dtype=np.bool_)
        self.agreement = np.full(count, np.nan)
        self.votes = np.zeros((members, count), dtype=np.bool_)
        self.answered = np.zeros((members, count), dtype=np.bool_)
        self.queries = np.zeros(count, dtype=np.intp)
        self.charged = np.zeros(count, dtype=np.intp)
        self.heard: list[dict[bytes, bool]] = [{} for _ in range(count)]

    def ask(
        self, ensemble: Ensemble, rows: NDArray[np.intp], asked: Candidates, target: Targets, wanted: float
    ) -> NDArray[np.bool_]:
        """Put one candidate (r, 1) of each of `rows` to the ensemble and keep what is better -> which hold (r,)

        What a record was asked about before it is not asked about again: the rungs of a ladder may be the same record.
        """
        names = [record.tobytes() for record in asked.records[:, 0]]
        fresh = [place for place, name in enumerate(names) if name not in self.heard[rows[place]]]
        if fresh:
            new = np.array(fresh, dtype=np.intp)
            holds = self._put(ensemble, rows[new], asked.take_rows(new), target, wanted)
            for place, held in zip(fresh, holds.tolist(), strict=True):
                self.heard[rows[place]][names[place]] = held
        return np.array([self.heard[row][name] for row, name in zip(rows, names, strict=True)], dtype=np.bool_)

    def _put(
        self, ensemble: Ensemble, rows: NDArray[np.intp], asked: Candidates, target: Targets, wanted: float
    ) -> NDArray[np.bool_]:
        """One question for each of `rows` (r,), about asked (r, 1) -> which hold (r,)"""
        said = ensemble.predict_proba(asked.records[:, 0])
        self.queries[rows] += 1
        self.charged[rows] += charges_of(ensemble, len(rows))
        share = agreement(said, target[rows])
        holds = share >= wanted - 1e-9
        known = np.where(np.isnan(self.agreement[rows]), -1.0, self.agreement[rows])
        cheaper = asked.cost[:, 0] < self.best.cost[rows, 0]
        better = np.where(
            holds & self.found[rows], cheaper, (holds & ~self.found[rows]) | (~self.found[rows] & (share > known))
        )
        taken = rows[better]
        self.best = self.best.replace_rows(taken, asked.take_rows(np.flatnonzero(better)))
        self.agreement[taken] = share[better]
        self.votes[:, taken], self.answered[:, taken] = votes(said, target[rows])[:, better], answered(said)[:, better]
        self.found[rows] |= holds
        return holds


def verify(
    model: RecourseModel,
    levels: Candidates,
    fallbacks: Candidates,
    target: Targets,
    feasible: FeasibleSet,
    ensemble: Ensemble,
    wanted: float,
    limit: NDArray[np.intp],
) -> Verified:
    """rungs (n, L) by rising expected agreement; spare (n, s) others; at most limit (n,) queries a record"""
    state = _State(levels, len(ensemble.member_names))
    _bisect(state, levels, target, ensemble, wanted, limit)
    _try_fallbacks(state, fallbacks, target, ensemble, wanted, limit)
    _shrink(state, model, target, feasible, ensemble, wanted, limit)
    kept = state.votes, state.answered, state.agreement
    return Verified(state.found, state.best, *kept, state.queries, state.charged)


def _bisect(
    state: _State, levels: Candidates, target: Targets, ensemble: Ensemble, wanted: float, limit: NDArray[np.intp]
) -> None:
    """Halve the ladder: below `low` nothing is left to ask, `high` holds."""
    count, size = levels.cost.shape
    low, high = np.full(count, -1), np.full(count, size)
    while True:
        rows = np.flatnonzero((high - low > 1) & (state.queries < limit))
        if not len(rows):
            return
        middle = (low[rows] + high[rows]) // 2
        holds = state.ask(ensemble, rows, levels.take_rows(rows).take(middle[:, None]), target, wanted)
        high[rows[holds]], low[rows[~holds]] = middle[holds], middle[~holds]


def _try_fallbacks(
    state: _State, fallbacks: Candidates, target: Targets, ensemble: Ensemble, wanted: float, limit: NDArray[np.intp]
) -> None:
    """Where no rung holds, the other candidates are asked, the most robust first."""
    order = np.argsort(-fallbacks.agreement, axis=1, kind="stable")
    for position in range(order.shape[1]):
        rows = np.flatnonzero(~state.found & (state.queries < limit))
        if not len(rows):
            return
        asked = fallbacks.take_rows(rows).take(order[rows, position : position + 1])
        state.ask(ensemble, rows, asked, target, wanted)


def _shrink(
    state: _State,
    model: RecourseModel,
    target: Targets,
    feasible: FeasibleSet,
    ensemble: Ensemble,
    wanted: float,
    limit: NDArray[np.intp],
) -> None:
    """Ask for moves that make an answer cheaper, the one with the most to gain first."""
    failures = np.zeros(len(state.found), dtype=np.intp)
    plenty = limit > PLENTY
    patience = np.where(plenty, limit // 2, PATIENCE)
    # The same turns for every record in each of its rounds, whatever else is in the batch.
    random = np.random.default_rng(0)
    for by_chance in cycle((False, True)):
        rows = np.flatnonzero(state.found & (state.queries < limit) & (failures < patience))
        if not len(rows):
            return
        best = state.best.take_rows(rows)
        moves = _ways_back(model, best, target[rows], feasible.rows(rows))
        gain = _gain(best, moves)
        if plenty.any():
            directions = random_directions(model, best, target[rows], feasible.rows(rows), random)
            moves, gain = (
                moves.beside(directions),
                _gain_with_directions(gain, best, directions, plenty[rows], by_chance, random),
            )
        for position, row in enumerate(rows):
            for move in range(gain.shape[1]):
                if moves.records[position, move].tobytes() in state.heard[row]:
                    gain[position, move] = -np.inf
        choice = gain.argmax(axis=1)
        possible = np.isfinite(gain[np.arange(len(rows)), choice])
        failures[rows[~possible]] = np.where(plenty[rows[~possible]], failures[rows[~possible]] + 1, PATIENCE)
        rows, asked = rows[possible], moves.take(choice[:, None]).take_rows(np.flatnonzero(possible))
        holds = state.ask(ensemble, rows, asked, target, wanted)
        failures[rows] = np.where(holds, 0, failures[rows] + 1)


def _gain(best: Candidates, moves: Candidates) -> Floats:
    """What each of moves (n, c) saves, by the chance that it holds; none where it saves nothing"""
    saving = best.cost - moves.cost
    gain: Floats = np.where(saving > 1e-9, saving * moves.agreement**STEEPNESS, -np.inf)
    return gain


def _gain_with_directions(
    gain: Floats,
    best: Candidates,
    directions: Candidates,
    plenty: NDArray[np.bool_],
    by_chance: bool,
    random: np.random.Generator,
) -> Floats:
    """gain (n, c) with that of turns (n, t) beside it; every other time chance chooses among the turns alone

    The surrogate may be wrong about what lies near: left alone it keeps to its own error.
    """
    chance = random.random(directions.cost.shape[1])
    own = _gain(best, directions)
    if by_chance:
        own = np.where(np.isfinite(own), chance, -np.inf)
        gain = np.where(plenty[:, None] & np.isfinite(own).any(axis=1, keepdims=True), -np.inf, gain)
    return np.concatenate([gain, np.where(plenty[:, None], own, -np.inf)], axis=1)


def _ways_back(model: RecourseModel, best: Candidates, target: Targets, feasible: FeasibleSet) -> Candidates:
    """From best (n, 1): single-feature moves, and points on the straight way back to the record (n, c)"""
    origin, end = model.encoder.encode(feasible.origin)[:, None], best.points
    along = origin + np.array(FRACTIONS)[None, :, None] * (end - origin)
    decoded = model.encoder.decode(along.reshape(-1, along.shape[2]), feasible=feasible.repeat(len(FRACTIONS)))
    straight = measure(model, decoded.reshape(len(end), len(FRACTIONS), -1), target, origin[:, 0])
    return straight.beside(moves_of(model, best, target, feasible))


def confirm(ensemble: Ensemble, records: Records, target: Targets) -> NDArray[np.float64]:
    """The agreement of the ensemble on records (n, F) -> (n,)"""
    return agreement(ensemble.predict_proba(records), target)


RANDOM_DIRECTIONS = 32
"""So many directions are looked at in each round."""
SPREADS = np.array([0.1, 0.25, 0.5, 1.0])
"""How far they turn aside: the length of the chance step beside the unit step of the answer."""
KEPT = np.array([0.8, 0.9, 0.95, 0.98])
"""How much of the answer's distance is kept there."""


def random_directions(
    model: RecourseModel, best: Candidates, target: Targets, feasible: FeasibleSet, random: np.random.Generator
) -> Candidates:
    """From best (n, 1): points nearer to the record in other directions, scored (n, TURNS); the same turns for all"""
    origin = model.encoder.encode(feasible.origin)[:, None]
    step = best.points - origin
    length = np.linalg.norm(step, axis=2, keepdims=True)
    mixed = _unit(step) + _chance_steps(step.shape[2], random)
    kept = np.repeat(KEPT, RANDOM_DIRECTIONS // len(KEPT))[:, None]
    points = origin + kept * length * _unit(mixed)
    decoded = model.encoder.decode(points.reshape(-1, step.shape[2]), feasible=feasible.repeat(RANDOM_DIRECTIONS))
    return measure(model, decoded.reshape(len(step), RANDOM_DIRECTIONS, -1), target, origin[:, 0])


def _chance_steps(width: int, random: np.random.Generator) -> Floats:
    """Chance steps (TURNS, width), of each spread in turn"""
    steps: Floats = (
        _unit(random.normal(size=(RANDOM_DIRECTIONS, width))) * np.resize(SPREADS, RANDOM_DIRECTIONS)[:, None]
    )
    return steps


def _unit(steps: Floats) -> Floats:
    """steps (..., D) at length 1"""
    units: Floats = steps / np.maximum(np.linalg.norm(steps, axis=-1, keepdims=True), 1e-12)
    return units
