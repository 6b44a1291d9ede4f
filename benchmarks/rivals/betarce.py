"""BetaRCE (Stępka et al., 2025): a base counterfactual, then growing spheres around it under a Beta test.

Growing spheres (Laugel et al., 2017) work on many records in step: points are drawn in a ball around each start, and
the ball is halved while any of them is accepted; then layers of that width are drawn further and further out until one
holds an accepted point, and the nearest of those is kept.
BetaRCE: the ensemble takes the place of the admissible models. Of the posterior Beta(1/2 + yes, 1/2 + no) of its votes,
the quantile at 1 - confidence must reach delta. The base counterfactual is that of growing spheres against the
majority.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals.rival import NO_QUERIES, CountedEnsemble, Problem, Queries
from models.arrays import Encoded, Records, Targets
from models.ensemble.votes import beta_lower_bound, votes
from models.space.encoding import Encoder

Accept: TypeAlias = Callable[[Records, NDArray[np.intp]], NDArray[np.bool_]]
"""Decoded records (r, F) and the case of each (r,) -> whether each is accepted (r,)"""


@dataclass(frozen=True, slots=True)
class SphereConfig:
    """`points` in each layer, the first radius, and how many times a ball is halved and a layer added at most.

    The authors of BetaRCE draw 100 points in layers of a tenth of each feature's range; a tenth of a range of four
    standard deviations is 0.4 here.
    """

    points: int = 100
    radius: float = 0.4
    halvings: int = 6
    layers: int = 60


@dataclass(frozen=True, eq=False)
class Found:
    """records (n, F), and whether each was found (n,)"""

    records: Records
    found: NDArray[np.bool_]


def grow_spheres(
    encoder: Encoder, starts: Records, accept: Accept, config: SphereConfig, random: np.random.Generator
) -> Found:
    """starts (n, F) -> the nearest accepted record around each; the start where there is none"""
    state = _State(encoder, starts, accept, config, random)
    width = np.full(len(starts), config.radius)
    shrinking = np.arange(len(starts))
    for _ in range(config.halvings):
        hit = state.draw(shrinking, np.zeros(len(shrinking)), width[shrinking])
        shrinking = shrinking[hit]
        width[shrinking] /= 2
        if not len(shrinking):
            break
    # What the balls held lies further out than their radius now, which is empty: the layers look again from there.
    state.forget()
    inner, pending = width.copy(), np.arange(len(starts))
    inner[shrinking] = 0.0
    for _ in range(config.layers):
        hit = state.draw(pending, inner[pending], inner[pending] + width[pending])
        inner[pending] += width[pending]
        pending = pending[~hit]
        if not len(pending):
            break
    return Found(state.records, state.found)


class _State:
    """The best record of each case so far, and the draws that may better it."""

    def __init__(
        self, encoder: Encoder, starts: Records, accept: Accept, config: SphereConfig, random: np.random.Generator
    ) -> None:
        self.encoder, self.starts, self.accept, self.config, self.random = encoder, starts, accept, config, random
        self.centres: Encoded = encoder.encode(starts)
        self.forget()

    def forget(self) -> None:
        self.records, self.found = self.starts.copy(), np.zeros(len(self.starts), dtype=np.bool_)

    def draw(
        self, cases: NDArray[np.intp], inner: NDArray[np.float64], outer: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """A layer from inner to outer (p,) around each of cases (p,) -> whether it holds an accepted point (p,)"""
        each, width = self.config.points, self.encoder.width
        rows = np.repeat(cases, each)
        steps = layer_points(len(rows), width, np.repeat(inner, each), np.repeat(outer, each), self.random)
        trial = self.encoder.decode(self.centres[rows] + steps, origin=self.starts[rows])
        taken = self.accept(trial, rows).reshape(len(cases), each)
        away = np.linalg.norm(self.encoder.encode(trial) - self.centres[rows], axis=1).reshape(len(cases), each)
        best = np.where(taken, away, np.inf).argmin(axis=1)
        hit = np.asarray(taken.any(axis=1), dtype=np.bool_)
        chosen = np.flatnonzero(hit) * each + best[hit]
        self.records[cases[hit]], self.found[cases[hit]] = trial[chosen], True
        return hit


def layer_points(
    count: int, width: int, inner: NDArray[np.float64], outer: NDArray[np.float64], random: np.random.Generator
) -> Encoded:
    """(count, width) steps, uniform over directions and over the volume between the radii inner and outer (count,)"""
    directions = random.normal(size=(count, width))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    share = random.uniform(size=count)
    # (outer^D - inner^D) overflows for wide data; the ratio does not.
    ratio = (inner / outer) ** width
    lengths = outer * (ratio + share * (1.0 - ratio)) ** (1.0 / width)
    steps: Encoded = directions * lengths[:, None]
    return steps


@dataclass(frozen=True, slots=True)
class BetaConfig:
    """delta: the agreement that must hold with probability `confidence`. The paper's grid has 0.7, 0.8 and 0.9."""

    delta: float = 0.8
    confidence: float = 0.9
    spheres: SphereConfig = field(default_factory=SphereConfig)


def votes_needed(members: int, config: BetaConfig) -> int | None:
    """The least number of votes that passes the test, None where not even all of them do."""
    for yes in range(members + 1):
        if beta_lower_bound(yes, members - yes, config.confidence) >= config.delta:
            return yes
    return None


class BetaRce:
    """Robust in the sense of a Beta posterior over the ensemble's votes."""

    def __init__(self, config: BetaConfig | None = None) -> None:
        self.config = config or BetaConfig()
        self._counted: CountedEnsemble | None = None

    @property
    def name(self) -> str:
        return "betarce"

    @property
    def queries(self) -> Queries:
        return NO_QUERIES if self._counted is None else self._counted.queries

    @property
    def note(self) -> str:
        members = 7 if self._counted is None else len(self._counted.member_names)
        best = beta_lower_bound(members, 0, self.config.confidence)
        level, met = f"{self.config.confidence:.0%}", "cannot" if best < 0.9 else "can"
        reach = f"all {members} models together reach {best:.2f} at {level}"
        return f"delta {self.config.delta} at {level}; {reach}, so that a threshold of 0.9 {met} be met"

    def fit(self, problem: Problem) -> None:
        """Nothing is learned; the queries start here."""
        self._counted = CountedEnsemble(problem.ensemble)
        self._encoder, self._seed = problem.encoder, problem.seed

    def explain(self, records: Records, target: Targets) -> Records:
        """Where the test cannot be met or nothing meets it, the base counterfactual is the answer."""
        assert self._counted is not None, "fit comes first"
        members = len(self._counted.member_names)
        random = np.random.default_rng(self._seed)
        base = self._grow(records, target, members // 2 + 1, random)
        needed = votes_needed(members, self.config)
        return base if needed is None else self._robust(base, target, needed, random)

    def _robust(self, base: Records, target: Targets, needed: int, random: np.random.Generator) -> Records:
        """Grow around the bases (n, F) that do not pass the test yet."""
        weak = np.flatnonzero(self._yes(base, target) < needed)
        answers = base.copy()
        if len(weak):
            answers[weak] = self._grow(base[weak], target[weak], needed, random)
        return answers

    def _grow(self, starts: Records, target: Targets, needed: int, random: np.random.Generator) -> Records:
        def accept(trial: Records, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
            enough: NDArray[np.bool_] = self._yes(trial, target[rows]) >= needed
            return enough

        return grow_spheres(self._encoder, starts, accept, self.config.spheres, random).records

    def _yes(self, records: Records, target: Targets) -> NDArray[np.intp]:
        """records (n, F), target (n,) -> how many models say the target (n,)"""
        assert self._counted is not None
        counts: NDArray[np.intp] = votes(self._counted.predict_proba(records), target).sum(axis=0)
        return counts
