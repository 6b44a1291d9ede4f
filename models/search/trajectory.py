"""How an answer came about: the path of the ODE that ended nearest to it, decoded point by point."""

from dataclasses import replace

import numpy as np
import torch

from ..arrays import Encoded, Targets
from ..data.records import from_records
from ..model import RecourseModel
from ..networks.ode import solve
from ..space.encoding import cost
from ..space.feasible import FeasibleSet
from .answers import PathPoint
from .candidates import measure, path_starts


def trace(
    model: RecourseModel, target: Targets, feasible: FeasibleSet, answers: Encoded, count: int, seed: int
) -> list[tuple[PathPoint, ...]]:
    """answers (n, D), encoded -> for each record the path, of `count` candidates, whose end is nearest to its answer

    Local search moved the answer after the flow, so it need not be the path's last point.
    """
    states = _states(model, target, feasible, count, seed)
    ends = states[-1].reshape(len(answers), count, -1)
    nearest = cost(ends, answers[:, None]).argmin(axis=1) + np.arange(len(answers)) * count
    way = states[:, nearest].transpose(1, 0, 2)
    steps = way.shape[1]
    decoded = model.encoder.decode(way.reshape(-1, way.shape[2]), feasible=feasible.repeat(steps))
    origin = model.encoder.encode(feasible.origin)
    measured = measure(model, decoded.reshape(len(answers), steps, -1), target, origin)
    times = np.linspace(0.0, 1.0, steps).tolist()
    traces = []
    for row in range(len(answers)):
        records = from_records(model.encoder.schema, measured.records[row])
        figures = zip(times, records, measured.cost[row].tolist(), measured.agreement[row].tolist(), strict=True)
        traces.append(tuple(PathPoint(*figure) for figure in figures))
    return traces


def _states(model: RecourseModel, target: Targets, feasible: FeasibleSet, count: int, seed: int) -> Encoded:
    """The states (T, n * count, D) of all candidates"""
    # The search takes few steps, since the paths are nearly straight; a path that is shown has more.
    flow = replace(model.config.flow, steps=max(model.config.flow.steps, model.config.search.path_points))
    parts = []
    for _, path_start in path_starts(model, target, feasible, count, seed):
        with torch.inference_mode():
            path = solve(model.velocity, path_start.request, path_start.start, flow, path_start.embedded)
        parts.append(path.states[:, :, :count].flatten(1, 2).cpu().numpy().astype(np.float64))
    return np.concatenate(parts, axis=1)
