"""The settings: what they refuse, and what the presets say."""

import math
from collections.abc import Callable

import pytest

from models.config import (
    MANY_RECORDS,
    NARROW,
    PRESETS,
    WIDE,
    AcquisitionConfig,
    AnchorConfig,
    Config,
    DistillConfig,
    EvaluationConfig,
    FlowConfig,
    FrontierConfig,
    GeneratorConfig,
    JuryConfig,
    LossConfig,
    NoiseConfig,
    OracleConfig,
    SearchConfig,
    SelectionConfig,
    SurrogateConfig,
    VerificationConfig,
    fast,
    paper,
)
from models.errors import ConfigError

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: NoiseConfig(ratio=0.0), "noise.ratio is 0.0"),
    (lambda: NoiseConfig(ratio=math.nan), "noise.ratio is nan"),
    (lambda: NoiseConfig(beta=-1.0), "noise.beta is -1.0"),
    (lambda: NoiseConfig(bound=math.inf), "noise.bound is inf"),
    (lambda: NoiseConfig(weight=-0.1), "noise.weight is -0.1"),
    (lambda: SurrogateConfig(width=4), "surrogate.width is 4; it must be a finite number of at least 8"),
    (lambda: SurrogateConfig(steps=-1), "surrogate.steps is -1"),
    (lambda: SurrogateConfig(batch=0), "surrogate.batch is 0"),
    (lambda: SurrogateConfig(learning_rate=0.0), "surrogate.learning_rate is 0.0"),
    (lambda: SurrogateConfig(heads=0), "surrogate.heads is 0"),
    (lambda: SurrogateConfig(weight_decay=-1.0), "surrogate.weight_decay is -1.0"),
    (lambda: SurrogateConfig(votes=False), "surrogate.jury labels for the head"),
    (lambda: FlowConfig(solver="heun"), "flow.solver is 'heun'; choose from euler, midpoint, ralston3, rk4, dopri5"),  # type: ignore[arg-type]
    (lambda: FlowConfig(width=1), "flow.width is 1"),
    (lambda: FlowConfig(steps=0), "flow.steps is 0"),
    (lambda: FlowConfig(tolerance=0.0), "flow.tolerance is 0.0"),
    (lambda: FlowConfig(max_evaluations=0), "flow.max_evaluations is 0"),
    (lambda: LossConfig(proxy="kde"), "loss.proxy is 'kde'"),  # type: ignore[arg-type]
    (lambda: LossConfig(cost_low=0.0), "loss.cost_low is 0.0"),
    (lambda: LossConfig(cost_low=3.0, cost_high=2.0), "loss.cost_low is 3.0 and loss.cost_high 2.0"),
    (lambda: LossConfig(valid=-1.0), "loss.valid is -1.0"),
    (lambda: LossConfig(density=-0.1), "loss.density is -0.1"),
    (lambda: GeneratorConfig(steps=-1), "generator.steps is -1"),
    (lambda: GeneratorConfig(epochs=-1), "generator.epochs is -1"),
    (lambda: GeneratorConfig(batch=0), "generator.batch is 0"),
    (lambda: GeneratorConfig(learning_rate=math.inf), "generator.learning_rate is inf"),
    (lambda: GeneratorConfig(weight_decay=-1.0), "generator.weight_decay is -1.0"),
    (lambda: GeneratorConfig(warmup=1.5), "generator.warmup is 1.5"),
    (lambda: GeneratorConfig(ema=1.0), "generator.ema is 1.0"),
    (lambda: GeneratorConfig(constrained=2.0), "generator.constrained is 2.0"),
    (lambda: GeneratorConfig(perturbation=-0.1), "generator.perturbation is -0.1"),
    (lambda: DistillConfig(rounds=-1), "distill.rounds is -1"),
    (lambda: DistillConfig(queries=-1), "distill.queries is -1"),
    (lambda: DistillConfig(surrogate_steps=-1), "distill.surrogate_steps is -1"),
    (lambda: DistillConfig(generator_steps=-1), "distill.generator_steps is -1"),
    (lambda: DistillConfig(surrogate_rate=0.0), "distill.surrogate_rate is 0.0"),
    (lambda: DistillConfig(generator_rate=0.0), "distill.generator_rate is 0.0"),
    (
        lambda: AcquisitionConfig(cost_weight_low=2.0),
        "acquisition.cost_weight_high is 1.2; it must be a finite number of",
    ),
    (lambda: AnchorConfig(fractions=(0.5, 1.5)), "anchors.fractions is 1.5; it must lie between 0 and 1"),
    (lambda: FrontierConfig(cost_weights=(0.1, -1.0)), "frontier.cost_weights is -1.0"),
    (lambda: JuryConfig(draws=0), "jury.draws is 0"),
    (lambda: JuryConfig(share=1.5), "jury.share is 1.5; it must lie between 0 and 1"),
    (lambda: SelectionConfig(penalty_factor=1.0), "selection.penalty_factor is 1.0"),
    (lambda: VerificationConfig(cost_weights=()), "verification.cost_weights is empty; give at least one number"),
    (lambda: VerificationConfig(cost_weights=(0.1, 0.0)), "verification.cost_weights is 0.0"),
    (lambda: VerificationConfig(fallbacks=-1), "verification.fallbacks is -1"),
    (lambda: SearchConfig(k=11), "k is 11; it must lie between 1 and 10"),
    (lambda: SearchConfig(cost_weight=math.nan), "price is nan"),
    (lambda: SearchConfig(min_agreement=0.0), "min_agreement is 0.0"),
    (lambda: SearchConfig(max_queries=-1), "max_queries is -1"),
    (lambda: EvaluationConfig(cost_budget=0.0), "cost_budget is 0.0"),
    (lambda: OracleConfig(rounds=0), "oracle.rounds is 0"),
    (lambda: Config(top_features=0), "top_features is 0"),
    (lambda: Config(device="tpu"), "device is 'tpu'; choose cpu, cuda, or one card"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message.split(";")[0] for _, message in REFUSED])
def test_a_setting_that_makes_no_sense_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_the_paper_preset_is_the_papers() -> None:
    config = paper(cost=0.4, density=0.3)
    assert (config.loss.cost_low, config.loss.cost_high, config.loss.density) == (0.4, 0.4, 0.3)
    assert (config.generator.learning_rate, config.surrogate.learning_rate) == (1e-3, 1e-4)
    assert (config.generator.epochs, config.generator.batch, config.generator.ema) == (800, 64, 0.999)
    assert config.generator.warmup * 800 == pytest.approx(20)
    assert (config.flow.solver, config.flow.tolerance, config.flow.adjoint) == ("dopri5", 1e-3, True)
    assert (config.noise.ratio, config.noise.weight, config.surrogate.spectral) == (0.2, 1.0, True)
    assert config.distill.generator_rate == 5e-5 and config.queries == 480


def test_presets_by_name() -> None:
    assert {name: make() for name, make in PRESETS.items()} == {"fast": fast(), "paper": paper()}
    assert fast().queries == 480


def test_more_records_get_a_wider_surrogate_unless_its_width_is_given() -> None:
    few, many = (SurrogateConfig().fitted(count) for count in (MANY_RECORDS, MANY_RECORDS + 1))
    assert (few.width, many.width) == (NARROW, WIDE)
    assert SurrogateConfig(width=40).fitted(10**6).width == 40
