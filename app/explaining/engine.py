"""One micro-batch: orders of one version and one search configuration, searched together. It blocks.

An order that cannot be run is an error of its own, and so is a record: neither fails its neighbours.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from app.blackbox.deadline import Deadline
from app.errors import DeadlineError
from app.explaining.billing import Bill, BilledEnsemble
from app.explaining.documents import record_answer
from app.explaining.parsing import ReadyOrder, parse_orders
from app.explaining.protocol import ExplainAnswer, ExplainOrder
from app.explaining.versions import LoadedVersion
from models.allowed import Allowed
from models.answers import Explanation, PathPoint, Status
from models.ensemble.protocol import Ensemble
from models.errors import QueryLimitError, RecourseError, SolverError
from models.matrix import Records
from models.model import RecourseModel
from models.prepared import join
from models.records import check_record
from models.scoring import Targets
from models.search import SearchConfig, search
from models.trajectory import trace

Outcome: TypeAlias = ExplainAnswer | Exception
CountQueries: TypeAlias = Callable[[int, int], None]
"""Told how many queries were charged, and how many records were answered without."""
DEFAULT = SearchConfig()


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


def run_batch(
    version: LoadedVersion, orders: Sequence[ExplainOrder], count: CountQueries = count_nothing
) -> list[Outcome]:
    """One outcome an order. All orders have the same `config_of`."""
    parsed = parse_orders(version.model, orders)
    found = iter(_answer_all(version, [one for one in parsed if isinstance(one, ReadyOrder)], count, Bill()))
    return [next(found) if isinstance(one, ReadyOrder) else one for one in parsed]


def _answer_all(
    version: LoadedVersion, ready: Sequence[ReadyOrder], count: CountQueries, bill: Bill
) -> Sequence[Outcome]:
    """Together if possible; where the common reservation does not fit or a fault of ours shows, each for itself.

    Once the time of some is over, the others are searched again without them. What the ensemble answered before is
    kept, so that asking again is free; the bill remembers what it cost.
    """
    if not ready:
        return []
    mark = bill.mark()
    try:
        return _search_together(version, ready, count, bill)
    except DeadlineError as error:
        now = time.monotonic()
        left = [one for one in ready if one.order.deadline > now]
        bill.back_to(mark)
        if len(left) == len(ready):
            return [error] * len(ready)
        found = iter(_answer_all(version, left, count, bill))
        return [next(found) if one.order.deadline > now else error for one in ready]
    # A fault that one order brings must not fail its neighbours; alone, it is that order's outcome.
    except Exception as error:
        if len(ready) == 1 or (isinstance(error, RecourseError) and not isinstance(error, QueryLimitError)):
            return [error] * len(ready)
    bill.back_to(mark)
    return [outcome for one in ready for outcome in _answer_all(version, [one], count, bill)]


def _search_together(
    version: LoadedVersion, ready: Sequence[ReadyOrder], count: CountQueries, bill: Bill
) -> list[Outcome]:
    """One search, verified with one reservation of the orders' maximum."""
    allowed, target = join([one.allowed for one in ready]), np.concatenate([one.target for one in ready])
    config = config_of(ready[0].order)
    if not len(target):
        found = []
    elif config.max_queries:
        ends = [one.order.deadline for one in ready]
        # What is under way is paid for, so it may end; but nothing more is asked once the time of one order is over.
        with version.meter().open(config.max_queries * len(target), deadline=Deadline(max(ends))) as ensemble:
            try:
                billed = BilledEnsemble(ensemble, bill, Deadline(min(ends)))
                found = _search_each(version.model, target, allowed, config, billed, bill)
            finally:
                count(ensemble.spent, ensemble.reused)
    else:
        found = _search_each(version.model, target, allowed, config, None, bill)
    starts = np.cumsum([0, *(len(one.rows) for one in ready)]).tolist()
    return [_answer(version.model, one, found[start:]) for one, start in zip(ready, starts[:-1], strict=True)]


def _search_each(
    model: RecourseModel, target: Targets, allowed: Allowed, config: SearchConfig, ensemble: Ensemble | None, bill: Bill
) -> list[Explanation]:
    """The search; where it fails on some record, halves are searched until that record is alone with its error."""
    mark = bill.mark()
    try:
        return search(model, target, allowed, config, ensemble)
    except SolverError as error:
        if len(target) == 1:
            return [Explanation(Status.ERROR, (), 0, error=str(error), charged=bill.told_since(mark))]
    bill.back_to(mark)
    halves = np.array_split(np.arange(len(target)), 2)
    again = partial(_search_each, model, config=config, ensemble=ensemble, bill=bill)
    return [answer for half in halves for answer in again(target[half], allowed.rows(half))]


def _answer(model: RecourseModel, ready: ReadyOrder, found: Sequence[Explanation]) -> ExplainAnswer:
    answers = [Explanation(Status.ERROR, (), 0, error=error) for error in ready.errors]
    for row, answer in zip(ready.rows, found, strict=False):
        answers[row] = answer
    paths = _trajectories(model, ready, found) if ready.order.trajectory else {}
    return ExplainAnswer(tuple(record_answer(answer, paths.get(row)) for row, answer in enumerate(answers)))


def _trajectories(
    model: RecourseModel, ready: ReadyOrder, found: Sequence[Explanation]
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
