"""Every setting of the method, with the two presets: `paper` (as published) and `fast` (ours, the default)."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from models.errors import ConfigError

Solver: TypeAlias = Literal["euler", "midpoint", "rk4", "dopri5"]
DensityProxy: TypeAlias = Literal["nce", "none", "disc2", "knn", "lof"]


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)


@dataclass(frozen=True, slots=True)
class NoiseConfig:
    """The noise class: uniform on [-C, C]^D, `ratio` noise points a data point (tau of the paper)."""

    ratio: float = 0.2
    beta: float = 1.2
    bound: float | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        _require(self.ratio > 0, f"noise.ratio is {self.ratio}; it must be above 0.")
        _require(self.beta > 0, f"noise.beta is {self.beta}; it must be above 0.")
        _require(self.bound is None or self.bound > 0, f"noise.bound is {self.bound}; it must be above 0.")


@dataclass(frozen=True, slots=True)
class SurrogateConfig:
    """The pair of networks. `votes` adds a head for the share of models that say each class (section 6 of the README)."""

    width: int = 128
    spectral: bool = False
    votes: bool = True
    plausible: bool = True
    steps: int = 1200
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        _require(self.width >= 8, f"surrogate.width is {self.width}; it must be at least 8.")
        _require(self.votes or not self.plausible, "surrogate.plausible needs surrogate.votes, the head that it teaches.")


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """The velocity network and how its ODE is solved."""

    width: int = 128
    solver: Solver = "midpoint"
    steps: int = 4
    tolerance: float = 1e-3
    adjoint: bool = False
    max_evaluations: int = 2000

    def __post_init__(self) -> None:
        _require(self.steps >= 1, f"flow.steps is {self.steps}; it must be at least 1.")
        _require(self.solver != "dopri5" or self.tolerance > 0, f"flow.tolerance is {self.tolerance}; it must be above 0.")


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
        _require(0 < self.cost_low <= self.cost_high, f"loss.cost goes from {self.cost_low} to {self.cost_high}.")
        _require(self.density >= 0, f"loss.density is {self.density}; it must not be negative.")


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
        _require(0 <= self.ema < 1, f"generator.ema is {self.ema}; it must lie in [0, 1).")
        _require(0 <= self.constrained <= 1, f"generator.constrained is {self.constrained}; it must lie in [0, 1].")


@dataclass(frozen=True, slots=True)
class DistillConfig:
    """Local distillation: rounds x queries records are put to the ensemble, never more than the limit."""

    rounds: int = 20
    queries: int = 24
    surrogate_steps: int = 25
    generator_steps: int = 12
    surrogate_rate: float = 5e-4
    generator_rate: float = 5e-4

    def __post_init__(self) -> None:
        _require(self.rounds >= 0 and self.queries >= 0, "distill.rounds and distill.queries must not be negative.")


@dataclass(frozen=True, slots=True)
class Config:
    """One training run."""

    noise: NoiseConfig = field(default_factory=NoiseConfig)
    surrogate: SurrogateConfig = field(default_factory=SurrogateConfig)
    flow: FlowConfig = field(default_factory=FlowConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    top_features: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        top = self.top_features
        _require(top is None or top >= 1, f"top_features is {top}; at least 1 feature has to flow.")

    @property
    def queries(self) -> int:
        """The most records that distillation puts to the ensemble."""
        return self.distill.rounds * self.distill.queries


def fast() -> Config:
    """Ours: the same losses; larger batches, a fixed-step solver, a surrogate that is taught before the generator."""
    return Config()


def paper(cost: float = 0.2, density: float = 0.1) -> Config:
    """The paper's settings; cost and density are one point of its grid (0.2, 0.4, 0.6) x (0, 0.1, 0.3)."""
    return Config(
        surrogate=SurrogateConfig(spectral=True, votes=False, plausible=False, steps=0, batch=64, learning_rate=1e-4),
        flow=FlowConfig(solver="dopri5", tolerance=1e-3, adjoint=True),
        loss=LossConfig(cost_low=cost, cost_high=cost, density=density),
        generator=GeneratorConfig(
            epochs=800, batch=64, learning_rate=1e-3, warmup=20 / 800, ema=0.999, joint=True, constrained=0.0
        ),
        distill=DistillConfig(surrogate_steps=9, generator_steps=9, surrogate_rate=1e-4, generator_rate=5e-5),
    )


PRESETS = {"fast": fast, "paper": paper}
