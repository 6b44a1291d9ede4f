"""The settings of the training: networks, losses and schedules."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from .checks import at_least, one_of, positive, require, share

Solver: TypeAlias = Literal["euler", "midpoint", "ralston3", "rk4", "dopri5"]
DensityProxy: TypeAlias = Literal["nce", "none", "disc2", "knn", "lof"]


NARROW, WIDE, MANY_RECORDS = 192, 256, 10_000
"""The widths of the surrogate, and from how many training records on it is wide."""
MOST_HEADS = 16
"""Of so many black boxes each has its own head in the surrogate; of more, one head stands for all."""


@dataclass(frozen=True, slots=True)
class NoiseConfig:
    """The noise class: uniform on [-C, C]^D, `ratio` noise points a data point (tau of the paper)."""

    ratio: float = 0.2
    beta: float = 1.2
    bound: float | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        positive("noise.ratio", self.ratio)
        positive("noise.beta", self.beta)
        at_least("noise.weight", self.weight, 0)
        if self.bound is not None:
            positive("noise.bound", self.bound)


@dataclass(frozen=True, slots=True)
class SurrogateConfig:
    """The pair of networks. `votes` adds heads for what the black boxes say; `teachers` give them pseudo-labels.

    width              of the hidden layers; None leaves it to the number of training records, and
    heads              how many heads the votes have; None leaves it to the number of black boxes (`fitted`)
    queried_batch      queried labels in each update, beside `batch` records and `batch` pseudo-labels
    warmup             the share of the steps in which the learning rate rises; then it falls as a cosine
    final_rate         where it ends, as a share of the learning rate
    calibration_prior  how strongly slope and bias of the calibrated votes are held at 1 and 0
    """

    width: int | None = None
    heads: int | None = None
    spectral: bool = False
    votes: bool = True
    teachers: bool = True
    steps: int = 1000
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    queried_batch: int = 256
    warmup: float = 0.05
    final_rate: float = 1e-3
    calibration_prior: float = 0.02

    def __post_init__(self) -> None:
        if self.width is not None:
            at_least("surrogate.width", self.width, 8)
        if self.heads is not None:
            at_least("surrogate.heads", self.heads, 1)
        at_least("surrogate.steps", self.steps, 0)
        at_least("surrogate.batch", self.batch, 1)
        positive("surrogate.learning_rate", self.learning_rate)
        at_least("surrogate.weight_decay", self.weight_decay, 0)
        at_least("surrogate.queried_batch", self.queried_batch, 1)
        share("surrogate.warmup", self.warmup)
        share("surrogate.final_rate", self.final_rate)
        at_least("surrogate.calibration_prior", self.calibration_prior, 0)
        require(self.votes or not self.teachers, "surrogate.teachers label for the head that surrogate.votes adds.")

    def fitted(self, records: int, members: int) -> "SurrogateConfig":
        """The settings for so many training records and black boxes.

        More records say more, and a wider network can tell it.
        """
        width, heads = self.width or (WIDE if records > MANY_RECORDS else NARROW), self.heads
        fits = heads is None or heads in (1, members)
        require(fits, f"surrogate.heads is {heads}; it must be 1, or {members} as there are black boxes.")
        return replace(self, width=width, heads=heads or (members if members <= MOST_HEADS else 1))


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """The velocity network and how its ODE is solved.

    width    of the layers that follow the path
    context  of the layers that read the request once for all paths; None: one network does both (models/velocity.py)
    """

    width: int = 48
    context: int | None = 256
    solver: Solver = "ralston3"
    steps: int = 1
    tolerance: float = 1e-3
    adjoint: bool = False
    max_evaluations: int = 2000

    def __post_init__(self) -> None:
        one_of("flow.solver", self.solver, get_args(Solver))
        at_least("flow.width", self.width, 8)
        if self.context is not None:
            at_least("flow.context", self.context, 8)
        at_least("flow.steps", self.steps, 1)
        positive("flow.tolerance", self.tolerance)
        at_least("flow.max_evaluations", self.max_evaluations, 1)


@dataclass(frozen=True, slots=True)
class LossConfig:
    """Weights of the composite loss. lambda_cost is drawn from a range and is an input of the generator."""

    valid: float = 1.0
    cost_low: float = 0.02
    cost_high: float = 2.0
    density: float = 0.1
    proxy: DensityProxy = "nce"
    path: bool = False

    def __post_init__(self) -> None:
        one_of("loss.proxy", self.proxy, get_args(DensityProxy))
        positive("loss.cost_low", self.cost_low)
        positive("loss.cost_high", self.cost_high)
        span = f"loss.cost_low is {self.cost_low} and loss.cost_high {self.cost_high}"
        require(self.cost_low <= self.cost_high, f"{span}; the low one must not be above the high one.")
        at_least("loss.valid", self.valid, 0)
        at_least("loss.density", self.density, 0)


@dataclass(frozen=True, slots=True)
class GeneratorConfig:
    """How the generator is trained. `joint` refines the surrogate at each step, as the paper's Algorithm 1 does.

    constrained    the share of the requests in training that are given random constraints:
    frozen_most    at most this share of their features is frozen, and
    bounded_share  this share of their numbers is bounded on one side
    clip           the largest norm of a gradient
    """

    steps: int = 900
    epochs: int | None = None
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    warmup: float = 0.05
    ema: float = 0.99
    joint: bool = False
    constrained: float = 0.5
    perturbation: float = 0.05
    final_rate: float = 1e-3
    frozen_most: float = 0.7
    bounded_share: float = 0.2
    clip: float = 5.0

    def __post_init__(self) -> None:
        at_least("generator.steps", self.steps, 0)
        if self.epochs is not None:
            at_least("generator.epochs", self.epochs, 0)
        at_least("generator.batch", self.batch, 1)
        positive("generator.learning_rate", self.learning_rate)
        at_least("generator.weight_decay", self.weight_decay, 0)
        require(0 <= self.warmup <= 1, f"generator.warmup is {self.warmup}; it must lie in [0, 1].")
        require(0 <= self.ema < 1, f"generator.ema is {self.ema}; it must lie in [0, 1).")
        require(0 <= self.constrained <= 1, f"generator.constrained is {self.constrained}; it must lie in [0, 1].")
        at_least("generator.perturbation", self.perturbation, 0)
        share("generator.final_rate", self.final_rate)
        share("generator.frozen_most", self.frozen_most)
        share("generator.bounded_share", self.bounded_share)
        positive("generator.clip", self.clip)


@dataclass(frozen=True, slots=True)
class SelectionConfig:
    """How LassoNet ranks the features, if `top_features` asks for it (models/training/feature_selection.py).

    rows           rank the features as well as all of them
    first_penalty  what LassoNet's own estimate comes to, which takes longer than the path; it rises by penalty_factor
    first_epochs   at most, without a penalty; then `epochs` for each penalty
    """

    rows: int = 3000
    first_penalty: float = 3.0
    penalty_factor: float = 1.2
    width: int = 64
    first_epochs: int = 200
    epochs: int = 40
    batch: int = 512

    def __post_init__(self) -> None:
        for name in ("rows", "width", "first_epochs", "epochs", "batch"):
            at_least(f"selection.{name}", getattr(self, name), 1)
        positive("selection.first_penalty", self.first_penalty)
        require(self.penalty_factor > 1, f"selection.penalty_factor is {self.penalty_factor}; it must be above 1.")


@dataclass(frozen=True, slots=True)
class RankerConfig:
    """The small network that ranks where paths end (models/networks/ranker.py).

    steps         of its training; with 0 there is none
    by_objective  so many ends go on for their objective at the request's cost weight, and
    by_agreement  so many for their agreement at any cost
    records       training records that it learns from, each with so many paths (`candidates`) and ways to the anchors
    checked       validation records on which it is measured, at each of the `cost_weights`
    most_regret   what may be lost of the best candidate's objective, in the mean at any of them; if more, it is dropped
    """

    width: int = 48
    steps: int = 2000
    by_objective: int = 4
    by_agreement: int = 1
    records: int = 2000
    candidates: int = 30
    batch: int = 512
    learning_rate: float = 6e-3
    warmup: float = 0.05
    final_rate: float = 1e-3
    checked: int = 200
    cost_weights: tuple[float, ...] = (0.01, 0.1, 0.6)
    most_regret: float = 0.03

    def __post_init__(self) -> None:
        at_least("ranker.width", self.width, 8)
        at_least("ranker.steps", self.steps, 0)
        at_least("ranker.by_objective", self.by_objective, 1)
        at_least("ranker.by_agreement", self.by_agreement, 0)
        for name in ("records", "candidates", "batch", "checked"):
            at_least(f"ranker.{name}", getattr(self, name), 1)
        positive("ranker.learning_rate", self.learning_rate)
        share("ranker.warmup", self.warmup)
        share("ranker.final_rate", self.final_rate)
        require(len(self.cost_weights) > 0, "ranker.cost_weights is empty; give at least one number.")
        for cost_weight in self.cost_weights:
            positive("ranker.cost_weights", cost_weight)
        at_least("ranker.most_regret", self.most_regret, 0)
