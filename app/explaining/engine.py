"""One micro-batch: orders of one version and one search configuration, searched together. It blocks.

An order that cannot be run is an error of its own, and so is a record: neither fails its neighbours.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.blackbox.deadline import Deadline
from app.explaining.documents import record_answer
from app.explaining.protocol import ExplainAnswer, ExplainOrder
from app.explaining.versions import LoadedVersion
from models.allowed import Allowed
from models.answers import Explanation, PathPoint, Status
from models.constraints import Constraints
from models.ensemble.protocol import Ensemble
from models.errors import QueryLimitError, RecordError, RecourseError, SolverError
from models.matrix import Records
from models.model import RecourseModel
from models.prepared import join, prepare
from models.records import check_record
from models.scoring import Targets
from models.search import SearchConfig, search, target_codes
from models.trajectory import trace

Outcome: TypeAlias = ExplainAnswer | Exception
CountQueries: TypeAlias = Callable[[int, int], None]
"""Told how many queries were charged, and how many records were answered without."""
DEFAULT = SearchConfig()
ROW = re.compile(r"^Row \d+: ")
"""Constraint errors count the rows of a matrix; here the error stands beside its record."""


def count_nothing(charged: int, reused: int) -> None:
    """For who has no metrics."""


def config_of(order: ExplainOrder) -> SearchConfig:
    """How the order is searched: orders with equal ones can share a batch. ConfigError for what makes no sense."""
    return SearchConfig(
        candidates=order.candidates,
        price=DEFAULT.price if order.price is None else order.price,
        k=order.k,
        min_agreement=order.min_agreement,
        max_queries=order.max_queries,
        seed=order.seed,
    )


@dataclass(frozen=True, eq=False)
class _Ready:
    """An order, parsed: rows (g,) are the positions of the records that can be searched, errors of the others (n,)."""

    order: ExplainOrder
    allowed: Allowed
    target: Targets
    rows: NDArray[np.intp]
    errors: tuple[str | None, ...]


def run_batch(
    version: LoadedVersion, orders: Sequence[ExplainOrder], count: CountQueries = count_nothing
) -> list[Outcome]:
    """One outcome an order. All orders have the same `config_of`."""
    outcomes: list[Outcome | None] = [None] * len(orders)
    ready: dict[int, _Ready] = {}
    for position, order in enumerate(orders):
        try:
            ready[position] = _parse(version.model, order)
        except Exception as error:
            outcomes[position] = error
    for position, outcome in zip(ready, _answer_all(version, list(ready.values()), count), strict=True):
        outcomes[position] = outcome
    return [outcome for outcome in outcomes if outcome is not None]


def _parse(model: RecourseModel, order: ExplainOrder) -> _Ready:
    """Each record by itself; what is wrong with the whole order is raised."""
    schema = model.encoder.schema
    target_codes(model, order.target, 0)
    errors: list[str | None] = [None] * len(order.records)
    parsed, places = [np.empty((0, len(schema.features)))], []
    for position, record in enumerate(order.records):
        try:
            parsed.append(check_record(schema, record))
            places.append(position)
        except RecordError as error:
            errors[position] = str(error)
    constraints = Constraints(frozenset(order.immutable), order.ranges, order.directions)
    prepared = prepare(model, constraints, np.concatenate(parsed))
    for position, fault in zip(places, prepared.errors, strict=True):
        errors[position] = None if fault is None else ROW.sub("", fault)
    rows = np.array(places, dtype=np.intp)[prepared.rows]
    return _Ready(order, prepared.allowed, target_codes(model, order.target, len(rows)), rows, tuple(errors))


def _answer_all(version: LoadedVersion, ready: Sequence[_Ready], count: CountQueries) -> Sequence[Outcome]:
    """Together if possible; where the common reservation does not fit or a fault of ours shows, each for itself.

    What the ensemble answered before is kept, so that asking again is free.
    """
    if not ready:
        return []
    try:
        return _search_together(version, ready, count)
    except Exception as error:
        if len(ready) == 1 or (isinstance(error, RecourseError) and not isinstance(error, QueryLimitError)):
            return [error] * len(ready)
    return [outcome for one in ready for outcome in _answer_all(version, [one], count)]


def _search_together(version: LoadedVersion, ready: Sequence[_Ready], count: CountQueries) -> list[Outcome]:
    """One search, verified with one reservation of the orders' maximum."""
    allowed, target = join([one.allowed for one in ready]), np.concatenate([one.target for one in ready])
    config = config_of(ready[0].order)
    if not len(target):
        found = []
    elif config.max_queries:
        deadline = Deadline(max(one.order.deadline for one in ready))
        with version.meter().open(config.max_queries * len(target), deadline=deadline) as ensemble:
            try:
                found = _search_each(version.model, target, allowed, config, ensemble)
            finally:
                count(ensemble.spent, ensemble.reused)
    else:
        found = _search_each(version.model, target, allowed, config, None)
    starts = np.cumsum([0, *(len(one.rows) for one in ready)]).tolist()
    return [_answer(version.model, one, found[start:]) for one, start in zip(ready, starts[:-1], strict=True)]


def _search_each(
    model: RecourseModel, target: Targets, allowed: Allowed, config: SearchConfig, ensemble: Ensemble | None
) -> list[Explanation]:
    """The search; where it fails on some record, halves are searched until that record is alone with its error."""
    try:
        return search(model, target, allowed, config, ensemble)
    except SolverError as error:
        if len(target) == 1:
            return [Explanation(Status.ERROR, (), 0, error=str(error))]
    halves = np.array_split(np.arange(len(target)), 2)
    again = partial(_search_each, model, config=config, ensemble=ensemble)
    return [answer for half in halves for answer in again(target[half], allowed.rows(half))]


def _answer(model: RecourseModel, ready: _Ready, found: Sequence[Explanation]) -> ExplainAnswer:
    answers = [Explanation(Status.ERROR, (), 0, error=error) for error in ready.errors]
    for row, answer in zip(ready.rows, found, strict=False):
        answers[row] = answer
    paths = _trajectories(model, ready, found) if ready.order.trajectory else {}
    return ExplainAnswer(tuple(record_answer(answer, paths.get(row)) for row, answer in enumerate(answers)))


def _trajectories(
    model: RecourseModel, ready: _Ready, found: Sequence[Explanation]
) -> dict[int, tuple[PathPoint, ...]]:
    """The path of each first counterfactual, by the record's position."""
    places = [place for place in range(len(ready.rows)) if found[place].counterfactuals]
    if not places:
        return {}
    ends: list[Records] = [
        check_record(model.encoder.schema, found[place].counterfactuals[0].record) for place in places
    ]
    chosen, order = np.array(places, dtype=np.intp), ready.order
    answers = model.encoder.encode(np.concatenate(ends))
    paths = trace(model, ready.target[chosen], ready.allowed.rows(chosen), answers, order.candidates, order.seed)
    return dict(zip(ready.rows[chosen].tolist(), paths, strict=True))
