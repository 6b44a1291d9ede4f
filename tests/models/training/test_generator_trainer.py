"""What the generator is asked in training."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from models.config import Config
from models.data.schema import Feature, FeatureKind, Schema
from models.networks.density import make_proxy
from models.networks.surrogate import SurrogatePair
from models.networks.velocity import make_velocity
from models.space.encoding import Encoder
from models.space.snapping import Snapper
from models.training.generator_trainer import GeneratorTrainer, training_boxes
from models.training.surrogate_trainer import SurrogateTrainer, TrainingData
from tests.models.tiny import TINY, Task

CPU = torch.device("cpu")


def make_trainer(task: Task, config: Config = TINY, flowing: frozenset[str] | None = None) -> GeneratorTrainer:
    encoder, training = task.encoder, task.training
    points = torch.from_numpy(encoder.encode(training.records).astype(np.float32))
    data = TrainingData(points, torch.from_numpy(training.labels), 3.0)
    torch.manual_seed(0)
    pair = SurrogatePair(encoder.width, len(encoder.schema.classes), config.surrogate)
    velocity = make_velocity(encoder.width, len(encoder.schema.classes), config.flow)
    random = torch.Generator().manual_seed(0)
    boxes = training_boxes(encoder, training.records, flowing or frozenset(encoder.schema.names), CPU)
    score = make_proxy("nce", points, 3.0, config.noise, random)
    return GeneratorTrainer(velocity, pair, data, boxes, Snapper(encoder, CPU), score, config, random)


def constrained(share: float) -> Config:
    return replace(TINY, generator=replace(TINY.generator, constrained=share))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_requests_are_about_records_within_their_boxes(loans_task: Task, share: float) -> None:
    trainer = make_trainer(loans_task, constrained(share))
    request = trainer.draw_request(400)
    gap = torch.cdist(request.point, trainer.data.points, compute_mode="donot_use_mm_for_euclid_dist")
    assert not gap.amin(dim=1).any()
    rows = gap.argmin(dim=1)
    assert bool((request.target != trainer.data.labels[rows]).all())
    low, high = np.log(TINY.loss.cost_low), np.log(TINY.loss.cost_high)
    assert low <= float(request.log_cost.min()) < low + 0.2 and high - 0.2 < float(request.log_cost.max()) <= high
    assert bool((request.lower <= request.point + 1e-5).all()) and bool((request.point <= request.upper + 1e-5).all())


def test_some_requests_are_constrained_and_whole_features_are_frozen(loans_task: Task) -> None:
    free, bound = (make_trainer(loans_task, constrained(share)).draw_request(400) for share in (0.0, 1.0))
    assert float(bound.movable.float().mean()) < 0.8 * float(free.movable.float().mean())
    assert float((bound.upper - bound.lower).mean()) < float((free.upper - free.lower).mean())
    for feature, columns in zip(loans_task.encoder.schema.features, loans_task.encoder.columns, strict=True):
        part = bound.movable[:, columns]
        assert torch.equal(part.all(dim=1), part.any(dim=1))
        if feature.immutable:
            assert not part.any() and not free.movable[:, columns].any()


def test_some_categories_are_forbidden_and_never_the_record_s_own(loans_task: Task) -> None:
    trainer, encoder = make_trainer(loans_task, constrained(1.0)), loans_task.encoder
    request = trainer.draw_request(400)
    housing = encoder.columns[encoder.schema.index("housing")]
    housing = slice(housing.start, housing.stop - 1)  # the last one stands for a missing value
    own = request.point[:, housing] > 0
    forbidden = (request.upper[:, housing] == 0) & request.movable[:, housing]
    assert not (forbidden & own).any() and 0.02 < float(forbidden.float().mean()) < 0.5
    free = make_trainer(loans_task, constrained(0.0)).draw_request(400)
    assert bool((free.upper[:, housing] > 0).all())


def test_an_ordered_category_is_bounded_on_one_side_as_a_number_is() -> None:
    order = ("low", "mid", "high", "top")
    grade = Feature("grade", FeatureKind.CATEGORICAL, categories=order, ordered=True)
    schema = Schema((grade, Feature("flag", FeatureKind.CATEGORICAL, categories=("a", "b"))), "y", ("no", "yes"))
    encoder = Encoder.fit(schema, np.array([[0.0, 0.0], [3.0, 1.0]]))
    boxes = training_boxes(encoder, np.array([[0.0, 0.0], [3.0, 1.0]]), frozenset(schema.names), CPU)
    assert boxes.along.tolist() == [True, False] and not boxes.single.any()


def test_one_way_features_have_one_way_boxes(loans_task: Task) -> None:
    trainer = make_trainer(loans_task, constrained(0.0))
    request, columns = trainer.draw_request(200), loans_task.encoder.columns
    age = columns[loans_task.encoder.schema.index("age")].start
    late = columns[loans_task.encoder.schema.index("late_payments")].start
    torch.testing.assert_close(request.lower[:, age], request.point[:, age])
    torch.testing.assert_close(request.upper[:, late], request.point[:, late])


def test_what_does_not_flow_does_not_move(loans_task: Task) -> None:
    trainer = make_trainer(loans_task, flowing=frozenset({"income", "savings"}))
    request = trainer.draw_request(50)
    moving = loans_task.encoder.feature_of_column[request.movable.any(dim=0).numpy()]
    assert {loans_task.encoder.schema.names[j] for j in moving} <= {"income", "savings"}


def test_a_step_improves_the_generator_and_leaves_the_surrogate_alone(blobs_task: Task) -> None:
    easy = replace(constrained(0.0), loss=replace(TINY.loss, cost_low=0.01, cost_high=0.01, density=0.0))
    trainer = make_trainer(blobs_task, easy)
    with torch.no_grad():
        for net in (trainer.pair.first, trainer.pair.second):
            assert net.votes is not None
            net.votes.weight.mul_(10.0)
    pair_before = [parameter.detach().clone() for parameter in trainer.pair.parameters()]
    losses = [float(trainer.step()) for _ in range(60)]
    assert np.mean(losses[-10:]) < 0.9 * np.mean(losses[:10])
    for before, after in zip(pair_before, trainer.pair.parameters(), strict=True):
        assert torch.equal(before, after)
        assert after.grad is None


def test_epochs_and_steps(blobs_task: Task) -> None:
    rows = len(blobs_task.training)
    by_epochs = replace(TINY, generator=replace(TINY.generator, epochs=3, batch=50))
    assert make_trainer(blobs_task, by_epochs).steps == 3 * -(-rows // 50)
    assert make_trainer(blobs_task).steps == TINY.generator.steps


def test_a_joint_run_refines_the_surrogate_too(blobs_task: Task) -> None:
    config = replace(TINY, generator=replace(TINY.generator, joint=True, steps=3))
    trainer = make_trainer(blobs_task, config)
    before = trainer.pair.first.nce.weight.detach().clone()
    surrogate = SurrogateTrainer(trainer.pair, trainer.data, config, trainer.random)
    trainer.train(surrogate, lambda phase, step, steps, figure: None)
    assert not torch.equal(before, trainer.pair.first.nce.weight)
