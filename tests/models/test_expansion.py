"""The views that the surrogate's networks have of a point."""

import numpy as np
import pytest
import torch

from models.encoding import Encoder
from models.expansion import BINS, Expansion
from tests.models.test_encoding import RECORDS, SCHEMA
from tests.models.tiny import Task


@pytest.fixture(scope="module")
def loans_view(loans_task: Task) -> tuple[Expansion, torch.Tensor]:
    points = torch.from_numpy(loans_task.encoder.encode(loans_task.training.records).astype(np.float32))
    expansion = Expansion(loans_task.encoder)
    expansion.fit(points)
    return expansion, points


def test_shape_and_the_point_itself(loans_view: tuple[Expansion, torch.Tensor]) -> None:
    expansion, points = loans_view
    seen = expansion(points)
    assert seen.shape == (len(points), expansion.width)
    assert torch.equal(seen[:, : points.shape[1]], points)
    assert bool(seen.isfinite().all())


def test_a_number_passes_through_its_bins(loans_task: Task, loans_view: tuple[Expansion, torch.Tensor]) -> None:
    expansion, points = loans_view
    encoder = loans_task.encoder
    column = encoder.columns[encoder.schema.index("income")].start
    place = expansion.numeric.tolist().index(column)
    ordered = points[points[:, column].argsort()]
    start = encoder.width + place * BINS
    bins = expansion(ordered)[:, start : start + BINS]
    assert bool((bins[1:] >= bins[:-1]).all())
    assert bool((bins[0] == 0).all()) and bool((bins[-1] == 1).all())
    full = bins.sum(dim=1)
    assert 0.3 * BINS < float(full.median()) < 0.7 * BINS


def test_a_category_is_nearly_one_hot_where_it_can_be_decoded() -> None:
    encoder = Encoder.fit(SCHEMA, RECORDS)
    expansion = Expansion(encoder)
    points = torch.from_numpy(encoder.encode(RECORDS).astype(np.float32))
    expansion.fit(points)
    levels = expansion(points)[:, -8:]
    for row, record in enumerate(RECORDS):
        missing = 3 if np.isnan(record[2]) else int(record[2])
        expected = torch.zeros(8)
        expected[int(record[1])], expected[4 + missing] = 1.0, 1.0
        torch.testing.assert_close(levels[row], expected, atol=0.01, rtol=0)


def test_everything_has_a_gradient(loans_view: tuple[Expansion, torch.Tensor]) -> None:
    expansion, points = loans_view
    moving = points.clone().requires_grad_(True)
    weight = torch.arange(float(expansion.width))
    (gradient,) = torch.autograd.grad((expansion(moving) * weight).sum(), moving)
    assert bool(gradient.isfinite().all()) and bool((gradient != 0).any(dim=0).all())
