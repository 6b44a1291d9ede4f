"""The scores that may stand in for the density."""

from functools import cache
from typing import get_args

import pytest
import torch
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from torch import Tensor

from benchmarks.experiments.proxies import NEIGHBORS
from models.config import DensityProxy, NoiseConfig
from models.errors import ConfigError
from models.networks.density import Score, draw_noise, make_proxy
from models.networks.surrogate import SurrogateOutput

DATA = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 0.3, 0.5, 2.0])
POINTS = torch.randn(50, 4, generator=torch.Generator().manual_seed(1)) * 2
TARGET = torch.zeros(50, dtype=torch.long)
NOTHING = SurrogateOutput.of(torch.zeros(50, 3), None)


@cache
def fitted(name: DensityProxy, rows: int) -> Score:
    """The proxy, fitted to the first rows of the data."""
    return make_proxy(name, DATA[:rows], 3.0, NoiseConfig(), torch.Generator().manual_seed(0))


def scores(name: DensityProxy, points: Tensor = POINTS, rows: int = 300) -> Tensor:
    return fitted(name, rows)(points, TARGET[: len(points)], (NOTHING, NOTHING))


@pytest.mark.parametrize("name", [name for name in get_args(DensityProxy) if name != "nce"])
def test_shape(name: DensityProxy) -> None:
    assert scores(name).shape == (50,)


def test_nce_is_the_lower_score_of_the_two() -> None:
    first = SurrogateOutput.of(torch.tensor([[3.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), None)
    second = SurrogateOutput.of(torch.tensor([[0.0, 0.0, 1.0], [5.0, 0.0, 0.0]]), None)
    proxy = make_proxy("nce", DATA, 3.0, NoiseConfig(), torch.Generator())
    assert proxy(POINTS[:2], TARGET[:2], (first, second)).tolist() == [-1.0, 0.0]


@pytest.mark.parametrize("rows", [300, 5])
def test_knn_against_scikit_learn(rows: int) -> None:
    count = min(NEIGHBORS, rows)
    distances, _ = NearestNeighbors(n_neighbors=count).fit(DATA[:rows].numpy()).kneighbors(POINTS.numpy())
    expected = torch.from_numpy(-distances.mean(axis=1)).float()
    torch.testing.assert_close(scores("knn", rows=rows), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [300, 5])
def test_lof_against_scikit_learn(rows: int) -> None:
    count = min(NEIGHBORS, rows - 1)
    model = LocalOutlierFactor(n_neighbors=count, novelty=True).fit(DATA[:rows].numpy())
    expected = torch.from_numpy(model.score_samples(POINTS.numpy())).float()
    torch.testing.assert_close(scores("lof", rows=rows), expected, rtol=1e-3, atol=1e-3)


def test_disc2_tells_data_from_noise() -> None:
    noise = draw_noise(50, 4, 3.0, torch.Generator().manual_seed(3))
    real, fake = scores("disc2", DATA[:50]), scores("disc2", noise)
    assert float((real[:, None] > fake).float().mean()) > 0.9


def test_disc2_follows_its_generator_and_leaves_the_global_one_alone() -> None:
    first = scores("disc2")
    torch.rand(7)
    before = torch.random.get_rng_state()
    again = make_proxy("disc2", DATA, 3.0, NoiseConfig(), torch.Generator().manual_seed(0))
    assert torch.equal(again(POINTS, TARGET, (NOTHING, NOTHING)), first)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("name", ["disc2", "knn", "lof"])
def test_the_score_has_a_gradient(name: DensityProxy) -> None:
    points = POINTS.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(scores(name, points).sum(), points)
    assert bool(gradient.isfinite().all()) and bool(gradient.any())


def test_an_unknown_proxy() -> None:
    with pytest.raises(ConfigError, match="no density proxy 'kde'; choose from nce"):
        scores("kde")  # type: ignore[arg-type]
