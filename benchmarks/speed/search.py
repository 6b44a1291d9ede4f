"""How fast the search is: many records in one batch, and one record alone."""

import cProfile
import pstats
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from inspect import unwrap
from statistics import median
from time import perf_counter, process_time

import numpy as np

from benchmarks.speed.report import Latency, Throughput
from models.config import SearchConfig
from models.evaluation.evaluation import Cases
from models.model import RecourseModel
from models.networks.ode import integrate_end
from models.search.candidates import Candidates, generate, generate_with_origin
from models.search.local_search import polish
from models.search.scoring import score_with_gradients
from models.search.search import explain
from models.search.selection import best_at_cost_weight
from models.space.anchors import approach
from models.space.constraints import violations
from models.space.feasible import FeasibleSet
from models.space.prepared import prepare

CANDIDATES = 30
TOLERANCE = 1e-4
"""The paper's, at test time."""
PARTS: tuple[tuple[str, tuple[Callable[..., object], ...]], ...] = (
    ("constraints", (prepare, violations)),
    ("paths of the ODE", (integrate_end,)),
    ("ways to anchors", (approach,)),
    ("the rest of the candidates", (generate_with_origin,)),
    ("scores and gradients of moves", (score_with_gradients,)),
    ("the rest of polishing", (polish,)),
)
INSIDE = {
    "the rest of the candidates": ("paths of the ODE", "ways to anchors"),
    "the rest of polishing": ("scores and gradients of moves",),
}


def adaptive(model: RecourseModel) -> RecourseModel:
    """The same weights, solved as the paper solves at test time."""
    flow = replace(model.config.flow, solver="dopri5", tolerance=TOLERANCE, adjoint=False)
    return replace(model, config=replace(model.config, flow=flow))


def choose(model: RecourseModel, cases: Cases, config: SearchConfig) -> Candidates:
    """Generate and select, without polishing: Algorithm 2 and no more."""
    feasible = model.feasible(cases.records)
    candidates = generate(model, cases.target, feasible, config.candidates, config.seed)
    return _select(model, candidates, cases, feasible, config)


def _select(
    model: RecourseModel, candidates: Candidates, cases: Cases, feasible: FeasibleSet, config: SearchConfig
) -> Candidates:
    price = np.full(len(cases), config.cost_weight)
    return best_at_cost_weight(
        model, candidates, cases.target, feasible, price, config.min_expected_agreement, rounds=0, starts=0
    )


def choose_by_trials(model: RecourseModel, cases: Cases, config: SearchConfig) -> Candidates:
    """Algorithm 2 as it is printed: solve, decode and evaluate each trial by itself, then select

    Every trial starts at the record itself: where it starts does not change what it takes.
    """
    feasible = model.feasible(cases.records)
    trials = [generate(model, cases.target, feasible, 1, trial) for trial in range(config.candidates)]
    return _select(model, reduce(Candidates.beside, trials), cases, feasible, config)


def throughput(
    dataset: str, model: RecourseModel, published: RecourseModel, cases: Cases, alone: int, repeats: int
) -> Throughput:
    """All cases in one batch, then `alone` of them one by one, and so again: the best of each

    published: the model that the paper's schedule trained, searched as the paper searches
    """
    config, slow = SearchConfig(candidates=CANDIDATES), adaptive(model)

    def one_by_one(search: Callable[[Cases], object], offset: int) -> float:
        rows = [(offset + row) % len(cases) for row in range(alone)]
        return _seconds(lambda: [search(Cases(cases.records[r : r + 1], cases.target[r : r + 1])) for r in rows])

    ways: dict[str, list[float]] = {
        name: [] for name in ("batch", "batch whole", "alone", "alone whole", "published", "trials")
    }
    for turn in range(repeats):
        ways["batch"].append(len(cases) / _seconds(lambda: choose(model, cases, config)))
        ways["alone"].append(alone / one_by_one(lambda one: choose(slow, one, config), turn * alone))
        ways["published"].append(alone / one_by_one(lambda one: choose(adaptive(published), one, config), turn * alone))
        ways["trials"].append(
            alone / one_by_one(lambda one: choose_by_trials(adaptive(published), one, config), turn * alone)
        )
        ways["batch whole"].append(len(cases) / _seconds(lambda: _explain(model, cases, config)))
        ways["alone whole"].append(alone / one_by_one(lambda one: _explain(slow, one, config), turn * alone))
    return Throughput(dataset, *(max(ways[way]) for way in ways))


def latency(dataset: str, model: RecourseModel, cases: Cases) -> Latency:
    """explain() of each case alone, after a few that warm up; then once more under the profiler"""
    config, clock, processor = SearchConfig(), list[float](), list[float]()
    singles = [Cases(cases.records[row : row + 1], cases.target[row : row + 1]) for row in range(len(cases))]
    for one in singles[:5]:
        _explain(model, one, config)
    for one in singles:
        began, worked = perf_counter(), process_time()
        _explain(model, one, config)
        clock.append(1000 * (perf_counter() - began))
        processor.append(1000 * (process_time() - worked))
    p95 = float(np.percentile(clock, 95))
    return Latency(dataset, median(clock), p95, median(processor), profile(model, singles, config))


def profile(model: RecourseModel, singles: list[Cases], config: SearchConfig) -> tuple[tuple[str, float], ...]:
    """The share of the time that each part of explain() takes, under cProfile"""
    profiler = cProfile.Profile()
    profiler.enable()
    for one in singles:
        _explain(model, one, config)
    profiler.disable()
    times = _cumulative(profiler)
    whole = times[_code_of(explain)]
    spent = {name: sum(times.get(_code_of(each), 0.0) for each in functions) for name, functions in PARTS}
    own = {name: spent[name] - sum(spent[inner] for inner in INSIDE.get(name, ())) for name in spent}
    shares = [(name, seconds / whole) for name, seconds in own.items()]
    return (*shares, ("everything else", 1.0 - sum(share for _, share in shares)))


def _cumulative(profiler: cProfile.Profile) -> dict[tuple[str, int, str], float]:
    """The cumulative seconds of each function, by its file, line and name."""
    return {place: float(row[3]) for place, row in pstats.Stats(profiler).stats.items()}  # type: ignore[attr-defined]


def _code_of(function: Callable[..., object]) -> tuple[str, int, str]:
    code = unwrap(function).__code__
    return code.co_filename, code.co_firstlineno, code.co_name


def _explain(model: RecourseModel, cases: Cases, config: SearchConfig) -> object:
    return explain(model, cases.records, cases.target, None, config)


def _seconds(work: Callable[[], object]) -> float:
    """Of the processor: what other processes take does not count."""
    started = process_time()
    work()
    return process_time() - started
