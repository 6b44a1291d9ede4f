"""Lessons: bought from the ensemble, and free ones between the classes."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from models.arrays import Records
from models.errors import EnsembleError
from models.space.snapping import Snapper
from models.training.pseudo_labels import Bought, FreeLessons, buy, mix_points
from models.training.teachers import fit_plausible
from tests.models.tiny import Scorecards, Task
from tests.models.training.test_teachers import VOTERS

CPU = torch.device("cpu")


class Canned(Scorecards):
    """Gives the answers that it was told (3, n, K)."""

    def __init__(self, task: Task, answers: NDArray[np.float64]) -> None:
        super().__init__(task.encoder)
        self.answers = answers

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        return self.answers


def test_mean_probability_and_share_of_votes(loans_task: Task) -> None:
    answers = np.array([[[0.9, 0.1]], [[0.6, 0.4]], [[0.2, 0.8]]])
    records = loans_task.training.records[:1]
    bought = buy(Canned(loans_task, answers), loans_task.encoder, records, torch.tensor([1]), 3)
    np.testing.assert_allclose(bought.mean, [[1.7 / 3, 1.3 / 3]], rtol=1e-6)
    np.testing.assert_allclose(bought.shares, [[2 / 3, 1 / 3]], rtol=1e-6)
    assert bought.votes.tolist() == [[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]
    together = buy(Canned(loans_task, answers), loans_task.encoder, records, torch.tensor([1]), 1)
    np.testing.assert_allclose(together.votes, [[[2 / 3, 1 / 3]]], rtol=1e-6)
    np.testing.assert_allclose(bought.points, loans_task.encoder.encode(records), rtol=1e-6)
    assert bought.target.tolist() == [1]


def test_who_did_not_answer_is_left_out(loans_task: Task) -> None:
    gone = [np.nan, np.nan]
    answers = np.array([[[0.9, 0.1], gone], [gone, gone], [[0.3, 0.7], gone]])
    records, target = loans_task.training.records[:2], torch.tensor([1, 0])
    bought = buy(Canned(loans_task, answers), loans_task.encoder, records, target, 3)
    np.testing.assert_allclose(bought.mean, [[0.6, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(bought.shares, [[0.5, 0.5]], rtol=1e-6)
    assert bought.votes.tolist() == [[[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]]
    assert bought.target.tolist() == [1]
    silent = Canned(loans_task, np.full((3, 2, 2), np.nan))
    with pytest.raises(EnsembleError, match="answered for any of 2 records"):
        buy(silent, loans_task.encoder, records, target, 3)


def test_buying_nothing_costs_nothing(loans_task: Task) -> None:
    empty = loans_task.training.records[:0]
    bought = buy(Scorecards(loans_task.encoder), loans_task.encoder, empty, torch.empty(0, dtype=torch.long), 3)
    assert [len(part) for part in bought.parts] == [0, 0, 0, 0]


def test_bought_answers_add_up(loans_task: Task) -> None:
    records, target = loans_task.training.records, torch.zeros(5, dtype=torch.long)
    five = buy(Scorecards(loans_task.encoder), loans_task.encoder, records[:5], target, 3)
    total = Bought.nothing(loans_task.encoder.width, 3, 2, CPU).extend(five).extend(five.part(slice(3, None)))
    assert [len(part) for part in total.parts] == [7, 7, 7, 7]
    for whole, part in zip(total.parts, five.parts, strict=True):
        assert torch.equal(whole[:5], part) and torch.equal(whole[5:], part[3:])


def test_free_lessons_are_weighed_anew_as_answers_come() -> None:
    lessons = FreeLessons(VOTERS, 3, 1, CPU)
    lessons.add(torch.tensor([[1.0, -1.0, -1.0]]))
    lessons.add(torch.tensor([[-1.0, 1.0, 1.0]]))
    torch.testing.assert_close(lessons.shares, torch.tensor([[2 / 3, 1 / 3], [1 / 3, 2 / 3]]))
    lessons.weigh(Bought.nothing(3, 1, 2, CPU))
    torch.testing.assert_close(lessons.shares, torch.tensor([[2 / 3, 1 / 3], [1 / 3, 2 / 3]]))
    points = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    says = torch.nn.functional.one_hot((points[:, 0] > 0).long(), 2).float()
    lessons.weigh(Bought(points, torch.zeros(400, dtype=torch.long), says, says[:, None]))
    assert float(lessons.shares[0, 1]) > 0.9 and float(lessons.shares[1, 0]) > 0.9
    assert lessons.points.shape == (2, 3)


def test_mixed_points_are_decodable(loans_task: Task) -> None:
    encoder, training = loans_task.encoder, loans_task.training
    snapper = Snapper(encoder, CPU)
    points = torch.from_numpy(encoder.encode(training.records).astype(np.float32))
    labels = torch.from_numpy(training.labels)
    mixed = mix_points(points, labels, snapper, 500, torch.Generator().manual_seed(0))
    assert mixed.shape == (500, encoder.width)
    records = encoder.decode(mixed.numpy().astype(np.float64))
    np.testing.assert_allclose(encoder.encode(records), mixed.numpy(), atol=2e-3)
    again = mix_points(points, labels, snapper, 500, torch.Generator().manual_seed(0))
    assert torch.equal(mixed, again)


def test_mixed_points_lie_between_the_classes(blobs_task: Task) -> None:
    """The four blobs stand in the corners of a square, with a gap between them along both axes."""
    encoder, training = blobs_task.encoder, blobs_task.training
    points = torch.from_numpy(encoder.encode(training.records).astype(np.float32))
    labels, random = torch.from_numpy(training.labels), torch.Generator().manual_seed(0)
    mixed = mix_points(points, labels, Snapper(encoder, CPU), 2000, random)
    between, seldom = (float((part.abs() < 0.4).any(dim=1).float().mean()) for part in (mixed, points))
    assert between > 0.3 and seldom < 0.15


def test_half_of_the_lessons_are_practice_once_there_is_any(blobs_task: Task) -> None:
    encoder, training = blobs_task.encoder, blobs_task.training
    points = encoder.encode(training.records)
    free = FreeLessons(fit_plausible(points, training.labels, 4, seed=0), encoder.width, 7, torch.device("cpu"))
    free.add(torch.from_numpy(points[:90].astype(np.float32)))
    random = torch.Generator().manual_seed(0)
    assert free.draw(400, random).max() >= 80
    free.add(torch.from_numpy(points[90:100].astype(np.float32)), practice=True)
    drawn = free.draw(400, random)
    assert free.practice.tolist() == list(range(90, 100))
    assert (drawn[:200] >= 90).all() and 0 < (drawn[200:] >= 90).sum() < 60
    assert free.taught.shape == (100, 7, 4) and free.shares.shape == (100, 4)
