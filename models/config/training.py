"""The settings of the training: networks, losses and schedules."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, TypeAlias

from .checks import Count, NotNegative, Positive, Settings, Share, Size, at_least, positive, require

Solver: TypeAlias = Literal["euler", "midpoint", "ralston3", "rk4", "dopri5"]
DensityProxy: TypeAlias = Literal["nce", "none", "disc2", "knn", "lof"]


NARROW, WIDE, MANY_RECORDS = 192, 256, 10_000
"""The widths of the surrogate, and from how many training records on it is wide."""


@dataclass(frozen=True, slots=True)
class NoiseConfig(Settings):
    """The noise class: uniform on [-C, C]^D, `ratio` noise points a data point (tau of the paper)."""

    section: ClassVar[str] = "noise."
    ratio: Positive = 0.2
    beta: Positive = 1.2
    bound: Annotated[float | None, positive] = None
    weight: NotNegative = 1.0


@dataclass(frozen=True, slots=True)
class SurrogateConfig(Settings):
    """The pair of networks. `votes` adds a head for what the black boxes say; the `jury` gives it pseudo-labels.

    width              of the hidden layers; None leaves it to the number of training records (`fitted`)
    heads              of the votes: 1; models trained by version 0.1 have one for each black box
    queried_batch      queried labels in each update, beside `batch` records and `batch` pseudo-labels
    warmup             the share of the steps in which the learning rate rises; then it falls as a cosine
    final_rate         where it ends, as a share of the learning rate
    calibration_prior  how strongly slope and bias of the calibrated votes are held at 1 and 0
    """

    section: ClassVar[str] = "surrogate."
    width: Annotated[int | None, at_least(8)] = None
    heads: Size = 1
    spectral: bool = False
    votes: bool = True
    jury: bool = True
    steps: Count = 1000
    batch: Size = 256
    learning_rate: Positive = 2e-3
    weight_decay: NotNegative = 1e-4
    queried_batch: Size = 256
    warmup: Share = 0.05
    final_rate: Share = 1e-3
    calibration_prior: NotNegative = 0.02

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        require(self.votes or not self.jury, "surrogate.jury labels for the head that surrogate.votes adds.")

    def fitted(self, records: int) -> "SurrogateConfig":
        """The settings for so many training records: more records say more, and a wider network can tell it."""
        return replace(self, width=self.width or (WIDE if records > MANY_RECORDS else NARROW))


@dataclass(frozen=True, slots=True)
class FlowConfig(Settings):
    """The velocity network and how its ODE is solved.

    width    of the layers that follow the path
    context  of the layers that read the request once for all paths; None: one network does both (models/velocity.py)
    """

    section: ClassVar[str] = "flow."
    width: Annotated[int, at_least(8)] = 48
    context: Annotated[int | None, at_least(8)] = 256
    solver: Solver = "ralston3"
    steps: Size = 1
    tolerance: Positive = 1e-3
    adjoint: bool = False
    max_evaluations: Size = 2000


@dataclass(frozen=True, slots=True)
class LossConfig(Settings):
    """Weights of the composite loss. lambda_cost is drawn from a range and is an input of the generator."""

    section: ClassVar[str] = "loss."
    valid: NotNegative = 1.0
    cost_low: Positive = 0.02
    cost_high: Positive = 2.0
    density: NotNegative = 0.1
    proxy: DensityProxy = "nce"
    path: bool = False

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        span = f"loss.cost_low is {self.cost_low} and loss.cost_high {self.cost_high}"
        require(self.cost_low <= self.cost_high, f"{span}; the low one must not be above the high one.")


@dataclass(frozen=True, slots=True)
class GeneratorConfig(Settings):
    """How the generator is trained. `joint` refines the surrogate at each step, as the paper's Algorithm 1 does.

    constrained    the share of the requests in training that are given random constraints:
    frozen_most    at most this share of their features is frozen, and
    bounded_share  this share of their numbers is bounded on one side
    clip           the largest norm of a gradient
    """

    section: ClassVar[str] = "generator."
    steps: Count = 900
    epochs: Annotated[int | None, at_least(0)] = None
    batch: Size = 256
    learning_rate: Positive = 2e-3
    weight_decay: NotNegative = 1e-4
    warmup: Share = 0.05
    ema: float = 0.99
    joint: bool = False
    constrained: Share = 0.5
    perturbation: NotNegative = 0.05
    final_rate: Share = 1e-3
    frozen_most: Share = 0.7
    bounded_share: Share = 0.2
    clip: Positive = 5.0

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        require(0 <= self.ema < 1, f"generator.ema is {self.ema}; it must lie in [0, 1).")


@dataclass(frozen=True, slots=True)
class SelectionConfig(Settings):
    """How LassoNet ranks the features, if `top_features` asks for it (models/training/feature_selection.py).

    rows           rank the features as well as all of them
    first_penalty  what LassoNet's own estimate comes to, which takes longer than the path; it rises by penalty_factor
    first_epochs   at most, without a penalty; then `epochs` for each penalty
    """

    section: ClassVar[str] = "selection."
    rows: Size = 3000
    first_penalty: Positive = 3.0
    penalty_factor: float = 1.2
    width: Size = 64
    first_epochs: Size = 200
    epochs: Size = 40
    batch: Size = 512

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        require(self.penalty_factor > 1, f"selection.penalty_factor is {self.penalty_factor}; it must be above 1.")
