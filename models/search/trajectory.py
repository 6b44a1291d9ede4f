"""How an answer came about: from the applicant's own record along a path of the flow, then by local search to it.

`flow_paths` are the paths of the ODE, decoded point by point. `trace` is what a person is shown: the record, the points
of the path that ended nearest to the answer, and then, in a few steps, what local search and verification changed
after it. From the second on, no point breaks a constraint.
"""

from dataclasses import replace

import numpy as np
import torch

from ..arrays import Encoded, Floats, Records, Targets
from ..data.records import from_records
from ..model import RecourseModel
from ..networks.ode import solve
from ..space.encoding import cost
from ..space.feasible import FeasibleSet, same
from .answers import PathPoint, Stage
from .candidates import Candidates, measure, path_starts


def trace(
    model: RecourseModel, target: Targets, feasible: FeasibleSet, answers: Records, count: int, seed: int
) -> list[tuple[PathPoint, ...]]:
    """answers (n, F) -> the way from each record of feasible.origin to its answer

    It begins with the record and ends with the answer, bit by bit. In between lies the path that, of `count`
    candidates, ended nearest to the answer; it began near the record, not always at it, and the answer may have come
    from another candidate or from an anchor. Points that change nothing are left out.
    """
    flow = flow_paths(model, target, feasible, model.encoder.encode(answers), count, seed)[:, 1:]
    polished = _polishing(model, flow[:, -1], answers)
    way = np.concatenate([feasible.origin[:, None], flow, polished], axis=1)
    stages = [Stage.RECORD, *[Stage.FLOW] * flow.shape[1], *[Stage.LOCAL_SEARCH] * polished.shape[1]]
    measured = measure(model, way, target, feasible)
    return [_points(model, measured, row, stages) for row in range(len(way))]


def flow_paths(
    model: RecourseModel, target: Targets, feasible: FeasibleSet, answers: Encoded, count: int, seed: int
) -> Records:
    """answers (n, D), encoded -> the path, of `count` candidates, that ended nearest to each, decoded (n, T, F)

    T points at equal times; the first is where the path begins: the record, or near it.
    """
    states = _states(model, target, feasible, count, seed)
    ends = states[-1].reshape(len(answers), count, -1)
    nearest = cost(ends, answers[:, None]).argmin(axis=1) + np.arange(len(answers)) * count
    way = states[:, nearest].transpose(1, 0, 2)
    steps = way.shape[1]
    decoded = model.encoder.decode(way.reshape(-1, way.shape[2]), feasible=feasible.repeat(steps))
    return decoded.reshape(len(answers), steps, -1)


def _polishing(model: RecourseModel, ends: Records, answers: Records) -> Records:
    """From the ends of paths (n, F) to the answers (n, F), the features that differ most first (n, P, F)

    P is `path_points`; with fewer features to change, some points are equal.
    """
    steps, differs = model.config.search.path_points, ~same(ends, answers)
    shift = (model.encoder.encode(answers) - model.encoder.encode(ends)) ** 2
    share: Floats = np.stack([shift[:, where].sum(axis=1) for where in model.encoder.columns], axis=1)
    order = np.argsort(np.where(differs, -share, np.inf), axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    turn = rank * steps // np.maximum(differs.sum(axis=1, keepdims=True), 1)
    done = turn[:, None] <= np.arange(steps)[:, None]
    return np.where(done, answers[:, None], ends[:, None])


def _points(model: RecourseModel, way: Candidates, row: int, stages: list[Stage]) -> tuple[PathPoint, ...]:
    """The points of one record's way that differ from the one before; the answer is always the last."""
    own = way.records[row]
    moved = np.append(True, ~same(own[1:], own[:-1]).all(axis=1))
    kept = np.flatnonzero(moved)
    told = [stages[place] for place in kept]
    told[-1] = Stage.ANSWER
    records, times = from_records(model.encoder.schema, own[kept]), np.linspace(0.0, 1.0, len(kept)).tolist()
    figures = zip(told, times, records, way.cost[row, kept].tolist(), way.agreement[row, kept].tolist(), strict=True)
    return tuple(PathPoint(stage, *rest) for stage, *rest in figures)


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
