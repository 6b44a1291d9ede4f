"""Training from top to bottom, on tiny tasks."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import benchmarks.experiments.proxies  # noqa: F401 - makes the loss know disc2, knn and lof
from models.arrays import Records
from models.config import Config, DistillConfig, ResidualConfig
from models.datasets.dataset import Labelled
from models.datasets.synthetic import four_blobs
from models.ensemble.votes import agreement
from models.errors import ConfigError, DataError, EnsembleError
from models.model import RecourseModel
from models.search.candidates import generate
from models.search.scoring import score_points
from models.training.train import train
from tests.models.tiny import TINY, Scorecards, Task, feasible_by_schema, make_task, other_class

MICRO = replace(
    TINY,
    surrogate=replace(TINY.surrogate, steps=6, batch=32),
    generator=replace(TINY.generator, steps=5, batch=32),
    distill=replace(TINY.distill, rounds=1, queries=4, surrogate_steps=1, generator_steps=1),
)


@dataclass
class Diary:
    """A report that remembers."""

    entries: list[tuple[str, int, int]] = field(default_factory=list)
    figures: list[float] = field(default_factory=list)

    def __call__(self, phase: str, step: int, steps: int, figure: float) -> None:
        self.entries.append((phase, step, steps))
        self.figures.append(figure)


@pytest.fixture(scope="module")
def small_task() -> Task:
    """Four classes, 60 rows."""
    return make_task(four_blobs(60))


def train_on(task: Task, config: Config, lender: Scorecards, seed: int = 0, limit: int | None = None) -> RecourseModel:
    return train(task, lender, config, seed=seed, query_limit=limit)


def weights_of(model: RecourseModel) -> dict[str, torch.Tensor]:
    return {**model.pair.state_dict(prefix="pair."), **model.velocity.state_dict(prefix="velocity.")}


@pytest.mark.parametrize("limit", [0, 7, 50, 10_000])
def test_the_limit_holds_and_nothing_is_asked_twice(small_task: Task, limit: int) -> None:
    config = replace(MICRO, distill=DistillConfig(rounds=8, queries=24, surrogate_steps=1, generator_steps=1))
    lender = Scorecards(small_task.encoder)
    model = train_on(small_task, config, lender, limit=limit)
    assert lender.count <= min(limit, 192)
    assert lender.count >= min(limit, 192) * 0.5
    assert model.queries == lender.count
    asked = np.concatenate(lender.asked) if lender.asked else np.empty((0, 2))
    assert len(np.unique(asked, axis=0)) == lender.count
    if limit == 0:
        assert model.calibration.slope == 1.0 and not lender.asked


def test_records_are_asked_about_as_somebody_could_hold_them(loans_task: Task) -> None:
    lender = Scorecards(loans_task.encoder)
    train_on(loans_task, MICRO, lender)
    asked = np.concatenate(lender.asked)
    feasible = feasible_by_schema(loans_task.encoder, asked)
    again = loans_task.encoder.decode(loans_task.encoder.encode(asked), feasible=feasible)
    np.testing.assert_array_equal(again, asked)


def test_the_seed_decides_every_bit(small_task: Task) -> None:
    torch.manual_seed(1)
    first = train_on(small_task, MICRO, Scorecards(small_task.encoder), seed=3)
    torch.manual_seed(2)
    state = torch.random.get_rng_state()
    again = train_on(small_task, MICRO, Scorecards(small_task.encoder), seed=3)
    assert torch.equal(torch.random.get_rng_state(), state)
    other = train_on(small_task, MICRO, Scorecards(small_task.encoder), seed=4)
    mine, theirs, others = weights_of(first), weights_of(again), weights_of(other)
    for name, weight in mine.items():
        assert torch.equal(weight, theirs[name]), name
    assert not torch.equal(mine["velocity.state.weight"], others["velocity.state.weight"])
    assert first.frontier == again.frontier and first.calibration.slope == again.calibration.slope


class Corners(Scorecards):
    """Three models that name the nearest corner of the square, each a little off."""

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        self.asked.append(records.copy())
        names = [((records[:, 0] > off) * 2 + (records[:, 1] > -off)).astype(int) for off in (-0.2, 0.0, 0.2)]
        return np.stack([np.eye(4)[name] for name in names])


def test_four_classes_are_learned_and_reached(blobs_task: Task) -> None:
    config = replace(
        TINY,
        surrogate=replace(TINY.surrogate, votes=False, steps=200, width=32),
        flow=replace(TINY.flow, width=32),
        generator=replace(TINY.generator, steps=200),
    )
    lender = Corners(blobs_task.encoder)
    model = train_on(blobs_task, config, lender)
    test = blobs_task.test
    feasible = feasible_by_schema(model.encoder, test.records)
    for shift in (1, 2, 3):
        target = (test.labels + shift) % 4
        candidates = generate(model, target, feasible, 8, seed=0)
        best = candidates.take(candidates.agreement.argmax(axis=1)[:, None])
        assert agreement(lender.predict_proba(best.records[:, 0]), target).mean() > 0.9


class HardRule(Scorecards):
    """Three models that decide as the labels say, on the first number; and refuse all above 0 on the second."""

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        self.asked.append(records.copy())
        names = [((records[:, 0] > off) & (records[:, 1] < 0.0)).astype(int) for off in (-0.2, 0.0, 0.2)]
        return np.stack([np.eye(2)[name] for name in names])


def test_a_hard_rule_that_no_data_shows_is_learned_through_the_residual_ridge() -> None:
    """Of those whom the rule refuses and the data accepts the surrogate expects nearly nothing, with the ridge."""
    dataset = four_blobs(160)
    noise = {f"noise{j}": np.random.default_rng(j).normal(size=160) for j in range(4)}
    task = make_task(replace(dataset, frame=dataset.frame.assign(label=(dataset.frame["x1"] > 0).astype(int), **noise)))
    config = replace(
        TINY,
        surrogate=replace(TINY.surrogate, jury=True, width=32, steps=150),
        distill=DistillConfig(rounds=4, queries=24, surrogate_steps=40, generator_steps=2),
    )
    records = task.test.records[task.test.labels == 1]
    refused, approved = records[:, 1] > 0.3, records[:, 1] < -0.3
    assert refused.sum() >= 5 and approved.sum() >= 4

    def expected(residuals: ResidualConfig) -> NDArray[np.float64]:
        model = train_on(task, replace(config, residuals=residuals), HardRule(task.encoder))
        return score_points(model, task.encoder.encode(records), np.ones(len(records), dtype=np.int64)).agreement

    corrected, alone = expected(ResidualConfig()), expected(ResidualConfig(enabled=False))
    assert corrected[refused].mean() < 0.15 < 0.3 < alone[refused].mean()
    assert corrected[approved].mean() > 0.85


def test_missing_values_in_training_and_in_requests(loans_task: Task, tiny_model: RecourseModel) -> None:
    assert np.isnan(loans_task.training.records).any(axis=0).sum() >= 3
    gone = np.isnan(loans_task.test.records)
    rows = gone.any(axis=1)
    assert rows.any()
    feasible = feasible_by_schema(tiny_model.encoder, loans_task.test.records[rows])
    candidates = generate(tiny_model, other_class(loans_task.test.labels[rows], 2), feasible, 4, seed=0)
    assert np.isfinite(candidates.cost).all() and np.isfinite(candidates.agreement).all()
    assert not np.isnan(candidates.records[:, :, ~gone.any(axis=0)]).any()


OPTIONS: dict[str, Callable[[Config], Config]] = {
    "path penalty": lambda c: replace(c, loss=replace(c.loss, path=True)),
    "no density": lambda c: replace(c, loss=replace(c.loss, proxy="none")),
    "disc2": lambda c: replace(c, loss=replace(c.loss, proxy="disc2")),
    "knn": lambda c: replace(c, loss=replace(c.loss, proxy="knn")),
    "lof": lambda c: replace(c, loss=replace(c.loss, proxy="lof")),
    "jury": lambda c: replace(c, surrogate=replace(c.surrogate, jury=True)),
    "euler": lambda c: replace(c, flow=replace(c.flow, solver="euler")),
    "ralston3": lambda c: replace(c, flow=replace(c.flow, solver="ralston3", steps=1)),
    "rk4": lambda c: replace(c, flow=replace(c.flow, solver="rk4")),
    "dopri5": lambda c: replace(c, flow=replace(c.flow, solver="dopri5")),
    "adjoint, joint": lambda c: replace(
        c,
        flow=replace(c.flow, solver="dopri5", adjoint=True),
        generator=replace(c.generator, joint=True, epochs=1),
    ),
    "spectral, no votes": lambda c: replace(c, surrogate=replace(c.surrogate, spectral=True, votes=False)),
    "unconstrained, one cost": lambda c: replace(
        c, generator=replace(c.generator, constrained=0.0), loss=replace(c.loss, cost_low=0.2, cost_high=0.2)
    ),
    "no distillation": lambda c: replace(c, distill=replace(c.distill, rounds=0)),
    "no residual ridge": lambda c: replace(
        c, surrogate=replace(c.surrogate, jury=True), residuals=ResidualConfig(enabled=False)
    ),
    "two draws": lambda c: replace(c, surrogate=replace(c.surrogate, jury=True), jury=replace(c.jury, draws=2)),
    "no refinement": lambda c: replace(c, distill=replace(c.distill, generator_steps=0, surrogate_steps=0)),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_trains(small_task: Task, option: str) -> None:
    config, diary, task = OPTIONS[option](MICRO), Diary(), small_task
    lender = Scorecards(task.encoder)
    model = train(task, lender, config, report=diary)
    assert np.isfinite(diary.figures).all()
    phases = list(dict.fromkeys(phase for phase, _, _ in diary.entries))
    assert phases == ["surrogate", "generator", "distill"][: 2 if option == "no distillation" else 3]
    assert all(step <= steps for _, step, steps in diary.entries)
    assert model.config.flow.solver != "dopri5", "it is served on a fixed grid"
    assert bool(model.velocity.out.weight.any())
    assert all(bool(weight.isfinite().all()) for weight in weights_of(model).values())
    feasible = feasible_by_schema(task.encoder, task.test.records)
    assert np.isfinite(generate(model, other_class(task.test.labels, 4), feasible, 3, seed=0).cost).all()


def test_only_the_top_features_flow() -> None:
    """Of four columns the label needs one; the other three stay where they are."""
    dataset = four_blobs(120)
    frame = dataset.frame.assign(label=(dataset.frame["x1"] > 0).astype(int))
    noise = np.random.default_rng(0).normal(size=(120, 2))
    task = make_task(replace(dataset, frame=frame.assign(x3=noise[:, 0], x4=noise[:, 1])))
    lender = Scorecards(task.encoder)
    model = train_on(task, replace(MICRO, top_features=1), lender)
    assert model.generated_features == {"x1"}
    with pytest.raises(ConfigError, match="top_features is 9, but there are only 4 features"):
        train_on(task, replace(MICRO, top_features=9), lender)


def test_a_class_that_lacks(small_task: Task) -> None:
    rows = small_task.training.labels != 2
    training = Labelled(small_task.training.records[rows], small_task.training.labels[rows])
    with pytest.raises(DataError, match="lacks one of the classes 0, 1, 2, 3"):
        train(replace(small_task, training=training), Scorecards(small_task.encoder), MICRO)


def test_an_ensemble_that_never_answers_ends_the_training(small_task: Task) -> None:
    class Silent(Scorecards):
        def predict_proba(self, records: Records) -> NDArray[np.float64]:
            return np.full((3, len(records), 4), np.nan)

    with pytest.raises(EnsembleError, match="No model of the ensemble answered"):
        train_on(small_task, MICRO, Silent(small_task.encoder))


def test_an_empty_validation_split_is_refused(small_task: Task) -> None:
    nobody = Labelled(small_task.validation.records[:0], small_task.validation.labels[:0])
    with pytest.raises(DataError, match="validation split has no record"):
        train(replace(small_task, validation=nobody), Scorecards(small_task.encoder), MICRO)
