"""The flow is exact both ways and learns a density; the latent search crosses the boundary and not much more."""

import numpy as np
import pytest
import torch

from benchmarks.rivals.ceflow import CeFlow, CeFlowConfig
from benchmarks.rivals.real_nvp import FlowTraining, RealNvp, train_flow
from benchmarks.rivals.relu import ReluConfig
from benchmarks.rivals.rival import NO_QUERIES
from tests.benchmarks.rivals.planes import Thresholds, problem

SHORT = FlowTraining(couplings=4, width=16, steps=200)


def test_the_flow_comes_back_and_its_volume_is_the_jacobians() -> None:
    torch.manual_seed(0)
    flow = RealNvp(3, SHORT).requires_grad_(False)
    x = torch.randn(5, 3)
    z, change = flow(x)
    assert torch.allclose(flow.inverse(z), x, atol=1e-5)
    for row in range(5):
        jacobian = torch.func.jacrev(lambda point: flow(point[None])[0][0])(x[row])
        assert float(torch.linalg.slogdet(jacobian).logabsdet) == pytest.approx(float(change[row]), abs=1e-4)


def test_training_makes_the_data_likelier_than_what_lies_beside_them() -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(500, 2)) * np.array([0.2, 1.0])
    flow = train_flow(points, SHORT, 0)
    inside, outside = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])
    assert float(flow.log_density(inside)) > float(flow.log_density(outside)) + 3


def test_the_search_crosses_the_boundary_and_keeps_the_nearest() -> None:
    rival = CeFlow(CeFlowConfig(flow=SHORT, relu=ReluConfig(hidden=(16,), steps=300), steps=40))
    rival.fit(problem(Thresholds(0.0)))
    records, target = np.array([[-2.0, 0.0], [2.0, 0.4]]), np.array([1, 0])
    answers = rival.explain(records, target)
    assert rival.surrogate_classes(answers).tolist() == [1, 0] and rival.queries == NO_QUERIES
    # The classes meet at x1 = 0; the blobs' centres are at 2 and -2.
    assert -1.0 < answers[0, 0] < 1.5 and -1.5 < answers[1, 0] < 1.0
