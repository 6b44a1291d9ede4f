"""What the surrogate says of decoded points."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.config import Config, FlowConfig, SurrogateConfig, paper
from models.model import Calibration, RecourseModel
from models.networks.batching import BLOCK, CHUNK, chunks, padded
from models.networks.density import density_score
from models.search.scoring import score_points, score_with_gradients, target_logit, vote_uncertainty
from models.training.acquisition import _by_uncertainty
from tests.models.tiny import TINY, Task, random_model

WIDE = Config(surrogate=SurrogateConfig(width=128, heads=7), flow=FlowConfig(width=128))


@pytest.fixture(scope="module")
def model(blobs_task: Task) -> RecourseModel:
    """Four classes, random weights."""
    return random_model(blobs_task.encoder, TINY)


def points_of(model: RecourseModel, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(count, model.encoder.width)), random.integers(len(model.classes), size=count)


@given(rows=st.integers(1, 3 * BLOCK))
def test_padding_repeats_the_last_row(rows: int) -> None:
    values = torch.arange(2 * rows).reshape(rows, 2)
    filled = padded(values)
    assert len(filled) % BLOCK == 0 and len(filled) - rows < BLOCK
    assert torch.equal(filled[:rows], values) and bool((filled[rows:] == values[-1]).all())


@given(count=st.integers(0, 5 * CHUNK))
def test_chunks_cover_every_row_once(count: int) -> None:
    parts = list(chunks(count))
    ends = [0, *(part.stop for part in parts)]
    assert [part.start for part in parts] == ends[:-1] and ends[-1] == count
    assert all(0 < part.stop - part.start <= CHUNK for part in parts)


def test_agreement_is_the_calibrated_probability(model: RecourseModel) -> None:
    points, target = points_of(model, 40)
    scores = score_points(model, points, target)
    with torch.no_grad():
        first, second = model.pair(torch.from_numpy(points).float())
    mean = (first.log_class_share + second.log_class_share) / 2
    scaled = model.calibration.slope * mean + torch.from_numpy(model.calibration.bias)
    expected = torch.softmax(scaled, dim=1).numpy()[np.arange(40), target]
    np.testing.assert_allclose(scores.agreement, expected, atol=1e-6)
    codes = torch.from_numpy(target)
    lower = torch.minimum(density_score(first.logits, codes), density_score(second.logits, codes))
    np.testing.assert_allclose(scores.density, lower.numpy(), atol=1e-6)


@pytest.mark.parametrize("heads", [1, 4])
def test_there_is_no_doubt_where_all_models_agree_and_most_where_each_class_has_its_share(
    blobs_task: Task, heads: int
) -> None:
    drawn = random_model(blobs_task.encoder, Config(surrogate=SurrogateConfig(width=32, heads=heads)))
    model = replace(drawn, calibration=Calibration.identity(4))
    points, _ = points_of(model, 30)
    for net in (model.pair.first, model.pair.second):
        assert net.votes is not None
        torch.nn.init.zeros_(net.votes.weight)
        torch.nn.init.zeros_(net.votes.bias)
    np.testing.assert_allclose(vote_uncertainty(model, points), 0.75, rtol=1e-5)
    for net in (model.pair.first, model.pair.second):
        assert net.votes is not None
        with torch.no_grad():
            net.votes.bias.copy_(torch.tensor([0.0, 60.0, 0.0, 0.0]).repeat(heads))
    np.testing.assert_allclose(vote_uncertainty(model, points), 0.0, atol=1e-5)


def test_what_is_in_doubt_comes_sooner(blobs_task: Task) -> None:
    model = random_model(blobs_task.encoder, TINY)
    for net in (model.pair.first, model.pair.second):
        assert net.votes is not None
        with torch.no_grad():
            net.votes.weight.mul_(8.0)
    points, _ = points_of(model, 60)
    random, open_votes = np.random.default_rng(0), vote_uncertainty(model, points)
    orders = np.stack([_by_uncertainty(model, points, random) for _ in range(2000)])
    assert (np.sort(orders, axis=1) == np.arange(60)).all()
    first = np.bincount(orders[:, 0], minlength=60) / 2000
    np.testing.assert_allclose(first, open_votes / open_votes.sum(), atol=0.03)
    assert np.corrcoef(np.argsort(orders, axis=1).mean(axis=0), open_votes)[0, 1] < -0.8


def test_agreement_with_all_classes_adds_up(model: RecourseModel) -> None:
    points, _ = points_of(model, 40)
    total = sum(score_points(model, points, np.full(40, code)).agreement for code in range(4))
    np.testing.assert_allclose(total, 1.0, atol=1e-5)


def test_nothing_to_score(model: RecourseModel) -> None:
    points, target = points_of(model, 0)
    assert score_points(model, points, target).agreement.shape == (0,)
    assert score_with_gradients(model, points, target)[1].gradient.shape == (0, model.encoder.width)


def test_the_gradient_is_that_of_finite_differences(model: RecourseModel) -> None:
    points, target = points_of(model, 20)
    found = score_with_gradients(model, points, target)[1]
    logit, gradient = found.logit, found.gradient
    agreement = score_points(model, points, target).agreement
    np.testing.assert_allclose(1 / (1 + np.exp(-logit)), agreement, atol=1e-6)
    pair, codes = model.pair.double(), torch.from_numpy(target)
    try:
        for column in range(model.encoder.width):
            step = np.zeros(model.encoder.width)
            step[column] = 1e-6
            up, down = (target_logit(model, pair(torch.from_numpy(points + s)), codes) for s in (step, -step))
            slope = ((up - down) / 2e-6).detach().numpy()
            np.testing.assert_allclose(gradient[:, column], slope, atol=1e-3, rtol=1e-3)
    finally:
        model.pair.float()


@pytest.mark.parametrize("config", [TINY, WIDE, paper()], ids=["narrow", "heads", "paper"])
def test_scores_that_come_with_gradients_have_the_bits_of_those_without(blobs_task: Task, config: Config) -> None:
    model = random_model(blobs_task.encoder, config)
    points, target = points_of(model, CHUNK + 90)
    scores, gradients = score_with_gradients(model, points, target)
    plain = score_points(model, points, target)
    np.testing.assert_array_equal(scores.agreement, plain.agreement)
    np.testing.assert_array_equal(scores.density, plain.density)
    np.testing.assert_allclose(1 / (1 + np.exp(-gradients.logit)), plain.agreement, atol=1e-6)
    assert np.abs(gradients.gradient).max() > 0.05


@pytest.mark.parametrize("config", [TINY, WIDE, paper()], ids=["narrow", "heads", "paper"])
def test_a_row_alone_has_the_bits_that_it_has_in_a_batch(loans_task: Task, config: Config) -> None:
    model = random_model(loans_task.encoder, config)
    points, target = points_of(model, CHUNK + 700)
    together = score_points(model, points, target)
    gradients = score_with_gradients(model, points, target)[1]
    for row in (0, 1, 63, 64, *range(100, 400), 500, CHUNK - 1, CHUNK, CHUNK + 699):
        alone = score_points(model, points[row : row + 1], target[row : row + 1])
        assert alone.agreement[0] == together.agreement[row] and alone.density[0] == together.density[row]
        one = score_with_gradients(model, points[row : row + 1], target[row : row + 1])[1]
        assert one.logit[0] == gradients.logit[row]
        np.testing.assert_array_equal(one.gradient[0], gradients.gradient[row])
