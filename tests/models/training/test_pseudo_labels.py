"""Labels queried from the ensemble, and pseudo-labels between the classes."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from models.arrays import Records
from models.config import PseudoLabelConfig, ResidualConfig
from models.errors import EnsembleError
from models.space.snapping import Snapper
from models.training.pseudo_labels import PseudoLabels, QueriedLabels, mix_points, query_ensemble
from tests.models.tiny import Scorecards, Task
from tests.models.training.test_jury import JURY

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
    queried = query_ensemble(Canned(loans_task, answers), loans_task.encoder, records, torch.tensor([1]))
    np.testing.assert_allclose(queried.mean, [[1.7 / 3, 1.3 / 3]], rtol=1e-6)
    np.testing.assert_allclose(queried.shares, [[2 / 3, 1 / 3]], rtol=1e-6)
    np.testing.assert_allclose(queried.points, loans_task.encoder.encode(records), rtol=1e-6)
    assert queried.target.tolist() == [1]


def test_who_did_not_answer_is_left_out(loans_task: Task) -> None:
    gone = [np.nan, np.nan]
    answers = np.array([[[0.9, 0.1], gone], [gone, gone], [[0.3, 0.7], gone]])
    records, target = loans_task.training.records[:2], torch.tensor([1, 0])
    queried = query_ensemble(Canned(loans_task, answers), loans_task.encoder, records, target)
    np.testing.assert_allclose(queried.mean, [[0.6, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(queried.shares, [[0.5, 0.5]], rtol=1e-6)
    assert queried.target.tolist() == [1]
    silent = Canned(loans_task, np.full((3, 2, 2), np.nan))
    with pytest.raises(EnsembleError, match="answered for any of 2 records"):
        query_ensemble(silent, loans_task.encoder, records, target)


def test_querying_nothing_costs_nothing(loans_task: Task) -> None:
    empty = loans_task.training.records[:0]
    queried = query_ensemble(
        Scorecards(loans_task.encoder), loans_task.encoder, empty, torch.empty(0, dtype=torch.long)
    )
    assert [len(part) for part in queried.parts] == [0, 0, 0, 0]


def test_queried_labels_add_up(loans_task: Task) -> None:
    records, target = loans_task.training.records, torch.zeros(5, dtype=torch.long)
    five = query_ensemble(Scorecards(loans_task.encoder), loans_task.encoder, records[:5], target)
    total = (
        QueriedLabels.empty(loans_task.encoder.width, 2, CPU)
        .extend(five)
        .extend(QueriedLabels(*(part[3:] for part in five.parts)))
    )
    assert [len(part) for part in total.parts] == [7, 7, 7, 7]
    for whole, part in zip(total.parts, five.parts, strict=True):
        assert torch.equal(whole[:5], part) and torch.equal(whole[5:], part[3:])


def test_pseudo_labels_are_corrected_as_queried_labels_come() -> None:
    labels = PseudoLabels(JURY, 3, 2, CPU, ResidualConfig())
    labels.add(torch.tensor([[1.0, -1.0, -1.0]]))
    labels.add(torch.tensor([[-1.0, 1.0, 1.0]]))
    torch.testing.assert_close(labels.soft_labels, torch.tensor([[2 / 3, 1 / 3], [1 / 3, 2 / 3]]))
    labels.fit(QueriedLabels.empty(3, 2, CPU))
    torch.testing.assert_close(labels.soft_labels, torch.tensor([[2 / 3, 1 / 3], [1 / 3, 2 / 3]]))
    points = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    says = torch.nn.functional.one_hot((points[:, 0] > 0).long(), 2).float()
    labels.fit(QueriedLabels(points, torch.zeros(400, dtype=torch.long), says, says))
    assert float(labels.soft_labels[0, 1]) > 0.9 and float(labels.soft_labels[1, 0]) > 0.9
    assert labels.points.shape == (2, 3)


def test_mixed_points_are_decodable(loans_task: Task) -> None:
    encoder, training = loans_task.encoder, loans_task.training
    snapper = Snapper(encoder, CPU)
    points = torch.from_numpy(encoder.encode(training.records).astype(np.float32))
    labels = torch.from_numpy(training.labels)
    mixed = mix_points(points, labels, snapper, PseudoLabelConfig(500), torch.Generator().manual_seed(0))
    assert mixed.shape == (500, encoder.width)
    records = encoder.decode(mixed.numpy().astype(np.float64))
    np.testing.assert_allclose(encoder.encode(records), mixed.numpy(), atol=2e-3)
    again = mix_points(points, labels, snapper, PseudoLabelConfig(500), torch.Generator().manual_seed(0))
    assert torch.equal(mixed, again)


def test_mixed_points_lie_between_the_classes(blobs_task: Task) -> None:
    """The four blobs stand in the corners of a square, with a gap between them along both axes."""
    encoder, training = blobs_task.encoder, blobs_task.training
    points = torch.from_numpy(encoder.encode(training.records).astype(np.float32))
    labels, random = torch.from_numpy(training.labels), torch.Generator().manual_seed(0)
    mixed = mix_points(points, labels, Snapper(encoder, CPU), PseudoLabelConfig(2000), random)
    between, seldom = (float((part.abs() < 0.4).any(dim=1).float().mean()) for part in (mixed, points))
    assert between > 0.3 and seldom < 0.15
