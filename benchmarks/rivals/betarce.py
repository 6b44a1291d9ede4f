"""BetaRCE (Stępka et al., 2025): a base counterfactual, then growing spheres around it under a Beta test.

The ensemble takes the place of the admissible models: of the posterior Beta(1/2 + yes, 1/2 + no) of its votes, the
quantile at 1 - confidence must reach delta. The base counterfactual is that of growing spheres against the majority.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals.rival import NO_QUERIES, CountedEnsemble, Problem, Queries
from benchmarks.rivals.spheres import SphereConfig, grow_spheres
from models.arrays import Records, Targets
from models.ensemble.votes import beta_lower_bound, votes


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
