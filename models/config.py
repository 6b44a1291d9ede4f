"""Every setting of the method, with the two presets: `paper` (as published) and `fast` (ours, the default).

More or less training than a preset has, with the same queries.
"""

import math
import re
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from .errors import ConfigError


@dataclass(frozen=True, slots=True)
class MeasureConfig:
    """How a new version is measured, and what that costs in queries.

    records           held-out records that are explained, those where the surrogate expects less agreement than
    refused           this first
    checks            answers that are put to the ensemble, so that the figures are measured ones
    oracle_records    records that are compared with the oracle; for each of them
    verified_queries  is what verified search may ask, and
    oracle_queries    what the oracle may: nearly as many as it asks on the loans when nothing bounds it
    neighbours        training records that the oracle tries for each record: its first three waves
    """

    records: int = 200
    refused: float = 0.5
    checks: int = 50
    oracle_records: int = 10
    verified_queries: int = 10
    oracle_queries: int = 100
    neighbours: int = 8 + 32 + 128

    @property
    def queries_each(self) -> int:
        """Queries for one record that is compared with the oracle; one is for the answer without a query."""
        return 1 + self.verified_queries + self.oracle_queries

    @property
    def queries(self) -> int:
        """The most that all of it takes."""
        return self.checks + self.oracle_records * self.queries_each


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """One request.

    cost_weight             the agreement that a unit of cost must bring (`price` in the API); small is robust
    min_expected_agreement  the least expected agreement of a valid answer; 0 leaves the decision to the cost weight
    min_agreement           the share of black boxes that must accept
    max_queries             how many records may be put to them for each answer; 0: the surrogate alone decides
    """

    candidates: int = 30
    cost_weight: float = 0.1
    min_expected_agreement: float = 0.5
    k: int = 1
    min_agreement: float = 1.0
    max_queries: int = 0
    seed: int = 0
    polish_rounds: int = 4
    polish_starts: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.candidates <= 1000:
            raise ConfigError(f"candidates is {self.candidates}; it must lie between 1 and 1000.")
        if not (self.cost_weight > 0 and np.isfinite(self.cost_weight)):
            raise ConfigError(f"price is {self.cost_weight}; it must be a number above 0.")
        if not 0 <= self.min_expected_agreement <= 1:
            raise ConfigError(f"min_expected_agreement is {self.min_expected_agreement}; it must lie between 0 and 1.")
        if not 1 <= self.k <= 10:
            raise ConfigError(f"k is {self.k}; it must lie between 1 and 10.")
        if not 0 < self.min_agreement <= 1:
            raise ConfigError(f"min_agreement is {self.min_agreement}; it must lie above 0 and at most at 1.")
        if self.max_queries < 0:
            raise ConfigError(f"max_queries is {self.max_queries}; it must not be negative.")


Solver: TypeAlias = Literal["euler", "midpoint", "ralston3", "rk4", "dopri5"]
DensityProxy: TypeAlias = Literal["nce", "none", "disc2", "knn", "lof"]


NARROW, WIDE, MANY_RECORDS = 192, 256, 10_000
"""The widths of the surrogate, and from how many training records on it is wide."""
MOST_HEADS = 16
"""Of so many black boxes each has its own head in the surrogate; of more, one head stands for all."""


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)


def _positive(name: str, value: float) -> None:
    _require(0 < value < math.inf, f"{name} is {value}; it must be a finite number above 0.")


def _at_least(name: str, value: float, least: int) -> None:
    _require(least <= value < math.inf, f"{name} is {value}; it must be a finite number of at least {least}.")


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    _require(value in choices, f"{name} is '{value}'; choose from {', '.join(choices)}.")


@dataclass(frozen=True, slots=True)
class NoiseConfig:
    """The noise class: uniform on [-C, C]^D, `ratio` noise points a data point (tau of the paper)."""

    ratio: float = 0.2
    beta: float = 1.2
    bound: float | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        _positive("noise.ratio", self.ratio)
        _positive("noise.beta", self.beta)
        _at_least("noise.weight", self.weight, 0)
        if self.bound is not None:
            _positive("noise.bound", self.bound)


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
            _at_least("surrogate.width", self.width, 8)
        if self.heads is not None:
            _at_least("surrogate.heads", self.heads, 1)
        _at_least("surrogate.steps", self.steps, 0)
        _at_least("surrogate.batch", self.batch, 1)
        _positive("surrogate.learning_rate", self.learning_rate)
        _at_least("surrogate.weight_decay", self.weight_decay, 0)
        _require(self.votes or not self.plausible, "surrogate.plausible teaches the head that surrogate.votes adds.")

    def fitted(self, records: int, members: int) -> "SurrogateConfig":
        """The settings for so many training records and black boxes.

        More records say more, and a wider network can tell it.
        """
        width, heads = self.width or (WIDE if records > MANY_RECORDS else NARROW), self.heads
        fits = heads is None or heads in (1, members)
        _require(fits, f"surrogate.heads is {heads}; it must be 1, or {members} as there are black boxes.")
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
        _one_of("flow.solver", self.solver, get_args(Solver))
        _at_least("flow.width", self.width, 8)
        if self.context is not None:
            _at_least("flow.context", self.context, 8)
        _at_least("flow.steps", self.steps, 1)
        _positive("flow.tolerance", self.tolerance)
        _at_least("flow.max_evaluations", self.max_evaluations, 1)


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
        _one_of("loss.proxy", self.proxy, get_args(DensityProxy))
        _positive("loss.cost_low", self.cost_low)
        _positive("loss.cost_high", self.cost_high)
        span = f"loss.cost_low is {self.cost_low} and loss.cost_high {self.cost_high}"
        _require(self.cost_low <= self.cost_high, f"{span}; the low one must not be above the high one.")
        _at_least("loss.valid", self.valid, 0)
        _at_least("loss.density", self.density, 0)


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
        _at_least("generator.steps", self.steps, 0)
        if self.epochs is not None:
            _at_least("generator.epochs", self.epochs, 0)
        _at_least("generator.batch", self.batch, 1)
        _positive("generator.learning_rate", self.learning_rate)
        _at_least("generator.weight_decay", self.weight_decay, 0)
        _require(0 <= self.warmup <= 1, f"generator.warmup is {self.warmup}; it must lie in [0, 1].")
        _require(0 <= self.ema < 1, f"generator.ema is {self.ema}; it must lie in [0, 1).")
        _require(0 <= self.constrained <= 1, f"generator.constrained is {self.constrained}; it must lie in [0, 1].")
        _at_least("generator.perturbation", self.perturbation, 0)


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
        _at_least("distill.rounds", self.rounds, 0)
        _at_least("distill.queries", self.queries, 0)
        _at_least("distill.surrogate_steps", self.surrogate_steps, 0)
        _at_least("distill.generator_steps", self.generator_steps, 0)
        _positive("distill.surrogate_rate", self.surrogate_rate)
        _positive("distill.generator_rate", self.generator_rate)
        _at_least("distill.settle_steps", self.settle_steps, 0)
        _positive("distill.settle_rate", self.settle_rate)


@dataclass(frozen=True, slots=True)
class RankerConfig:
    """The small network that ranks where paths end (models/networks/ranker.py); with 0 steps there is none."""

    width: int = 48
    steps: int = 2000

    def __post_init__(self) -> None:
        _at_least("ranker.width", self.width, 8)
        _at_least("ranker.steps", self.steps, 0)


@dataclass(frozen=True, slots=True)
class Config:
    """One training run."""

    noise: NoiseConfig = field(default_factory=NoiseConfig)
    surrogate: SurrogateConfig = field(default_factory=SurrogateConfig)
    flow: FlowConfig = field(default_factory=FlowConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    ranker: RankerConfig = field(default_factory=RankerConfig)
    top_features: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.top_features is not None:
            _at_least("top_features", self.top_features, 1)
        known = re.fullmatch(r"cpu|cuda(:\d+)?", self.device) is not None
        _require(known, f"device is '{self.device}'; choose cpu, cuda, or one card of several such as cuda:1.")

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
        surrogate=SurrogateConfig(
            width=128, spectral=True, votes=False, plausible=False, steps=0, batch=64, learning_rate=1e-4
        ),
        flow=FlowConfig(width=128, context=None, solver="dopri5", steps=4, tolerance=1e-3, adjoint=True),
        loss=LossConfig(cost_low=cost, cost_high=cost, density=density),
        generator=GeneratorConfig(
            epochs=800, batch=64, learning_rate=1e-3, warmup=20 / 800, ema=0.999, joint=True, constrained=0.0
        ),
        distill=DistillConfig(
            surrogate_steps=9, generator_steps=9, surrogate_rate=1e-4, generator_rate=5e-5, settle_steps=0
        ),
        ranker=RankerConfig(steps=0),
    )


PRESETS = {"fast": fast, "paper": paper}


MOST = 10.0
RANKER_STEPS = 400
"""The scout is trained in a second or two: however little effort, it gets so many of its steps."""


def scale(config: Config, effort: float) -> Config:
    """The same training with `effort` times the steps; the queries stay."""
    if not 0 < effort <= MOST:
        raise ConfigError(f"effort is {effort}; it must lie above 0 and at most at {MOST:g}.")

    def scaled(steps: int) -> int:
        return math.ceil(steps * effort)

    generator, distill = config.generator, config.distill
    epochs = None if generator.epochs is None else scaled(generator.epochs)
    return replace(
        config,
        surrogate=replace(config.surrogate, steps=scaled(config.surrogate.steps)),
        generator=replace(generator, steps=scaled(generator.steps), epochs=epochs),
        distill=replace(
            distill,
            surrogate_steps=scaled(distill.surrogate_steps),
            generator_steps=scaled(distill.generator_steps),
            settle_steps=scaled(distill.settle_steps),
        ),
        ranker=replace(config.ranker, steps=max(scaled(config.ranker.steps), min(config.ranker.steps, RANKER_STEPS))),
    )


def afford(config: Config, queries: int) -> Config:
    """The same training within so many queries; a larger number pays for more rounds."""
    rounds = max(config.distill.rounds, queries // max(config.distill.queries, 1))
    return replace(config, distill=replace(config.distill, rounds=rounds))
