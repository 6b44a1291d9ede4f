"""The settings of the training: networks, losses and schedules."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from .checks import at_least, one_of, positive, require

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
    """The pair of networks. `votes` adds heads for what the black boxes say; `plausible` models teach them.

    width  of the hidden layers; None leaves it to the number of training records, and
    heads  how many heads the votes have; None leaves it to the number of black boxes (`fitted`)
    """

    width: int | None = None
    heads: int | None = None
    spectral: bool = False
    votes: bool = True
    plausible: bool = True
    steps: int = 1000
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        if self.width is not None:
            at_least("surrogate.width", self.width, 8)
        if self.heads is not None:
            at_least("surrogate.heads", self.heads, 1)
        at_least("surrogate.steps", self.steps, 0)
        at_least("surrogate.batch", self.batch, 1)
        positive("surrogate.learning_rate", self.learning_rate)
        at_least("surrogate.weight_decay", self.weight_decay, 0)
        require(self.votes or not self.plausible, "surrogate.plausible teaches the head that surrogate.votes adds.")

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
    """Weights of the composite loss. lambda_cost is drawn from a range, which the generator is told: the dial."""

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
    """How the generator is trained. `joint` refines the surrogate at each step, as the paper's Algorithm 1 does."""

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


@dataclass(frozen=True, slots=True)
class DistillConfig:
    """Local distillation: rounds x queries records are put to the ensemble, never more than the limit.

    settle_steps: when all is bought, the surrogate learns on at a rate that falls from settle_rate to nothing.
    """

    rounds: int = 20
    queries: int = 24
    surrogate_steps: int = 60
    generator_steps: int = 12
    surrogate_rate: float = 5e-4
    generator_rate: float = 5e-4
    settle_steps: int = 2000
    settle_rate: float = 1e-3

    def __post_init__(self) -> None:
        at_least("distill.rounds", self.rounds, 0)
        at_least("distill.queries", self.queries, 0)
        at_least("distill.surrogate_steps", self.surrogate_steps, 0)
        at_least("distill.generator_steps", self.generator_steps, 0)
        positive("distill.surrogate_rate", self.surrogate_rate)
        positive("distill.generator_rate", self.generator_rate)
        at_least("distill.settle_steps", self.settle_steps, 0)
        positive("distill.settle_rate", self.settle_rate)


@dataclass(frozen=True, slots=True)
class RankerConfig:
    """The small network that ranks where paths end (models/networks/ranker.py).

    steps         of its training; with 0 there is none
    by_objective  so many ends go on for their objective at the request's cost weight, and
    by_agreement  so many for their agreement at any cost
    """

    width: int = 48
    steps: int = 2000
    by_objective: int = 4
    by_agreement: int = 1

    def __post_init__(self) -> None:
        at_least("ranker.width", self.width, 8)
        at_least("ranker.steps", self.steps, 0)
        at_least("ranker.by_objective", self.by_objective, 1)
        at_least("ranker.by_agreement", self.by_agreement, 0)
