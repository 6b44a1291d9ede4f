"""All settings of one training run, and the presets: `fast` (ours, the default) and `paper` (as published)."""

import math
import re
from dataclasses import dataclass, field, replace
from typing import Annotated

from .checks import Settings, at_least, require
from .distillation import AcquisitionConfig, DistillConfig, JuryConfig, PseudoLabelConfig, ResidualConfig
from .search import SearchMethodConfig
from .training import (
    FlowConfig,
    GeneratorConfig,
    LossConfig,
    NoiseConfig,
    SelectionConfig,
    SurrogateConfig,
)

MOST_EFFORT = 10.0


@dataclass(frozen=True, slots=True)
class Config(Settings):
    """One training run."""

    noise: NoiseConfig = field(default_factory=NoiseConfig)
    surrogate: SurrogateConfig = field(default_factory=SurrogateConfig)
    flow: FlowConfig = field(default_factory=FlowConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    acquisition: AcquisitionConfig = field(default_factory=AcquisitionConfig)
    jury: JuryConfig = field(default_factory=JuryConfig)
    residuals: ResidualConfig = field(default_factory=ResidualConfig)
    pseudo_labels: PseudoLabelConfig = field(default_factory=PseudoLabelConfig)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    search: SearchMethodConfig = field(default_factory=SearchMethodConfig)
    top_features: Annotated[int | None, at_least(1)] = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        known = re.fullmatch(r"cpu|cuda(:\d+)?", self.device) is not None
        require(known, f"device is '{self.device}'; choose cpu, cuda, or one card of several such as cuda:1.")

    @property
    def queries(self) -> int:
        """The most records that distillation puts to the ensemble."""
        return self.distill.rounds * self.distill.queries

    def scaled(self, effort: float) -> "Config":
        """The same training with `effort` times the steps; the queries stay."""
        sensible = 0 < effort <= MOST_EFFORT
        require(sensible, f"effort is {effort}; it must lie above 0 and at most at {MOST_EFFORT:g}.")

        def scaled(steps: int) -> int:
            return math.ceil(steps * effort)

        generator, distill = self.generator, self.distill
        epochs = None if generator.epochs is None else scaled(generator.epochs)
        return replace(
            self,
            surrogate=replace(self.surrogate, steps=scaled(self.surrogate.steps)),
            generator=replace(generator, steps=scaled(generator.steps), epochs=epochs),
            distill=replace(
                distill,
                surrogate_steps=scaled(distill.surrogate_steps),
                generator_steps=scaled(distill.generator_steps),
            ),
        )

    def within_queries(self, queries: int) -> "Config":
        """The same training within so many queries; a larger number pays for more rounds."""
        rounds = max(self.distill.rounds, queries // max(self.distill.queries, 1))
        return replace(self, distill=replace(self.distill, rounds=rounds))

    def limited_to(self, queries: int) -> "Config":
        """The same training with no more rounds and queries than a limit pays for."""
        distill = self.distill
        if self.queries <= queries:
            return self
        if queries < distill.rounds:
            return replace(self, distill=replace(distill, rounds=queries, queries=min(distill.queries, 1)))
        return replace(self, distill=replace(distill, queries=queries // distill.rounds))


def fast() -> Config:
    """Ours: the same losses; larger batches, a fixed-step solver, a surrogate that learns before the generator."""
    return Config()


def paper(cost: float = 0.2, density: float = 0.1) -> Config:
    """The paper's settings; cost and density are one point of its grid (0.2, 0.4, 0.6) x (0, 0.1, 0.3)."""
    return Config(
        surrogate=SurrogateConfig(
            width=128, spectral=True, votes=False, jury=False, steps=0, batch=64, learning_rate=1e-4
        ),
        flow=FlowConfig(width=128, context=None, solver="dopri5", steps=4, tolerance=1e-3, adjoint=True),
        loss=LossConfig(cost_low=cost, cost_high=cost, density=density),
        generator=GeneratorConfig(
            epochs=800, batch=64, learning_rate=1e-3, warmup=20 / 800, ema=0.999, joint=True, constrained=0.0
        ),
        distill=DistillConfig(surrogate_steps=9, generator_steps=9, surrogate_rate=1e-4, generator_rate=5e-5),
    )


PRESETS = {"fast": fast, "paper": paper}
