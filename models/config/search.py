"""The settings of the search: of one request (`SearchConfig`), and of the method (`SearchMethodConfig`)."""

import math
from dataclasses import dataclass, field, fields
from typing import Annotated, ClassVar

import numpy as np

from .checks import (
    Count,
    NotNegative,
    Positive,
    Positives,
    Settings,
    Share,
    Shares,
    Size,
    between,
    every,
    filled,
    positive,
    require,
)


@dataclass(frozen=True, slots=True)
class SearchConfig(Settings):
    """One request.

    candidates              paths of the flow for each record
    cost_weight             the agreement that a unit of cost must bring (`price` in the API); small is robust
    min_expected_agreement  the least expected agreement of a valid answer; 0 leaves the decision to the cost weight
    k                       answers for each record
    min_agreement           the share of black boxes that must accept
    max_queries             how many records may be put to them for each answer; 0: the surrogate alone decides
    polish_rounds           rounds of local search
    polish_starts           how many of the candidates local search starts from
    """

    candidates: Annotated[int, between(1, 1000)] = 30
    cost_weight: float = 0.1
    min_expected_agreement: Share = 0.5
    k: Annotated[int, between(1, 10)] = 1
    min_agreement: float = 1.0
    max_queries: Count = 0
    seed: int = 0
    polish_rounds: int = 4
    polish_starts: int = 1

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        known = 0 < self.cost_weight < math.inf
        require(known, f"price is {self.cost_weight}; it must be a number above 0.")
        share = 0 < self.min_agreement <= 1
        require(share, f"min_agreement is {self.min_agreement}; it must lie above 0 and at most at 1.")


@dataclass(frozen=True, slots=True)
class AnchorConfig(Settings):
    """Anchors: points that nearly all jurors vote for, as further places to head for.

    sure       the share of votes that makes a point an anchor
    seekers    so many training records of other classes each name their nearest anchor, which is kept
    nearest    the search heads for so many anchors of each record
    fractions  and stops at these shares of the way
    """

    section: ClassVar[str] = "anchors."
    sure: Share = 0.98
    seekers: Size = 300
    nearest: Size = 4
    fractions: Shares = (0.4, 0.55, 0.7, 0.85, 1.0)


@dataclass(frozen=True, slots=True)
class LocalSearchConfig(Settings):
    """Local search around a candidate.

    change_penalty     what one changed feature costs, in agreement: a change that gains less is put back
    scored             how many of the ranked moves are scored exactly; with the joint moves they fill a block
    together           the best moves of so many features are also scored together
    least_gain         a record whose best move gains no more than this is done
    shares             a number goes this share of its way from the applicant's value
    strides            a number also goes so many standard deviations from where it is
    shown              how many single moves verification and diagnosis are shown, and
    shown_cost_weight  the cost weight at which they are ranked
    sparse_starts      where only so many features may change, so many candidates are taken down to their most useful
                       changes; from the best of them
    sparse_rounds      local search goes so many rounds, at least
    """

    section: ClassVar[str] = "local."
    change_penalty: NotNegative = 0.004
    scored: Size = 12
    together: Annotated[tuple[int, ...], filled] = (2, 4, 8, 14)
    least_gain: NotNegative = 1e-4
    shares: Annotated[tuple[float, ...], filled] = (0.5, 0.8, 0.93, 1.07, 1.2)
    strides: tuple[float, ...] = (-0.3, -0.08, 0.08, 0.3)
    shown: Size = 16
    shown_cost_weight: Positive = 0.3
    sparse_starts: Size = 16
    sparse_rounds: Size = 8


@dataclass(frozen=True, slots=True)
class VerificationConfig(Settings):
    """Verified search: up the cost-validity frontier until the black boxes agree, then other candidates.

    cost_weights  the weights that are gone through, from cheap answers to robust ones
    fallbacks     how many other candidates are asked where no answer on the frontier holds
    """

    section: ClassVar[str] = "verification."
    cost_weights: Annotated[Positives, filled] = (0.03, 0.02, 0.01, 0.005, 0.002)
    fallbacks: Count = 6


@dataclass(frozen=True, slots=True)
class FrontierConfig(Settings):
    """The cost-validity frontier on the validation split, and the cost weight for a cost budget.

    cost_weights  the weights that are measured
    records       so many records, of those where the expected agreement is at most
    refused       this: they clearly need a change; with fewer than
    least         such records, all are taken
    candidates    paths for each record
    rounds        of local search
    halvings      how often the interval of the weight for a budget is halved
    enough        where the mean expected agreement is this high, more cost would buy nothing
    """

    section: ClassVar[str] = "frontier."
    cost_weights: Annotated[tuple[float, ...], every(positive)] = tuple(
        float(weight) for weight in np.geomspace(0.005, 1.5, 14)
    )
    records: Size = 300
    refused: Share = 0.15
    least: int = 20
    candidates: Size = 30
    rounds: Size = 4
    halvings: Size = 12
    enough: Share = 0.995


@dataclass(frozen=True, slots=True)
class SearchMethodConfig(Settings):
    """How every search of a model works. The switches take a part of the method away, to measure what it brings.

    use_anchors            the ways to the anchors are candidates too
    listed                 what a record without an answer may become is listed if it is no more records than this
    certain                from this expected agreement on, an unverified record counts as already in the target class
    least_typicality       an answer that is less typical than this is not trusted
    named_constraints      how many constraints a diagnosis names at most
    least_gain             what a constraint's removal must bring in expected agreement to be named
    path_points            a path of the flow that is shown has at least so many steps, what follows it at most so many
    """

    section: ClassVar[str] = "search."
    anchors: AnchorConfig = field(default_factory=AnchorConfig)
    local: LocalSearchConfig = field(default_factory=LocalSearchConfig)
    verification: VerificationConfig = field(default_factory=VerificationConfig)
    frontier: FrontierConfig = field(default_factory=FrontierConfig)
    use_anchors: bool = True
    listed: Count = 5_000
    certain: Share = 0.9
    least_typicality: Share = 0.05
    named_constraints: Count = 3
    least_gain: NotNegative = 0.02
    path_points: Size = 8

    @classmethod
    def switches(cls) -> tuple[str, ...]:
        """The names of the parts that can be taken away"""
        return tuple(each.name for each in fields(cls) if each.name.startswith("use_"))
