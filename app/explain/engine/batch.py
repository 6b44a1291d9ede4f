"""One micro-batch: orders of one version and one search configuration, searched together. It blocks.

An order that cannot be run is an error of its own, and so is a record: neither fails its neighbours.

Which answer tells of which charge: what a search paid before it broke off is told by the one that repeats it.

The second search asks the same records, which are free by then: the bill knows what they cost.

Orders made ready for the search: each record is checked by itself, equal constraints are compiled once a batch.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.concurrency import Deadline
from app.ensembles.bought import record_keys
from app.errors import DeadlineError
from app.explain.answer import record_answer
from app.explain.contract import ExplainAnswer, ExplainOrder
from app.explain.engine.versions import LoadedVersion
from models.arrays import Records, Targets
from models.config import SearchConfig
from models.data.records import check_record
from models.ensemble.protocol import Ensemble
from models.errors import QueryLimitError, RecordError, RecourseError, SolverError
from models.model import RecourseModel
from models.search.answers import Explanation, PathPoint, Status
from models.search.search import search, target_codes
from models.search.trajectory import trace
from models.space.constraints import Constraints, Prepared, join, prepare
from models.space.feasible import FeasibleSet


class PaidEnsemble(Ensemble, Protocol):
    """An ensemble that knows what each record of the last call cost (n,), even if the call failed."""

    @property
    def charges(self) -> NDArray[np.intp]: ...


class Bill:
    """What a batch paid for each record, and how much of it the answers tell."""

    def __init__(self) -> None:
        self._paid: Counter[bytes] = Counter()
        self._told: Counter[bytes] = Counter()

    def tell(self, keys: Sequence[bytes], paid: NDArray[np.intp]) -> NDArray[np.intp]:
        """Add what records (n,) were charged; returns what each answer reports (n,): all that none reported before."""
        told = np.zeros(len(keys), dtype=np.intp)
        for position, (key, cost) in enumerate(zip(keys, paid.tolist(), strict=True)):
            self._paid[key] += cost
            told[position] = self._paid[key] - self._told[key]
            self._told[key] = self._paid[key]
        return told

    def mark(self) -> Counter[bytes]:
        """A moment to go back to."""
        return self._told.copy()

    def told_since(self, mark: Counter[bytes]) -> int:
        return self._told.total() - mark.total()

    def back_to(self, mark: Counter[bytes]) -> None:
        """The search since then broke off: what it told nobody has read."""
        self._told = mark


class BilledEnsemble:
    """An ensemble whose charges are what the bill says, and that is asked nothing after the deadline."""

    def __init__(self, ensemble: PaidEnsemble, bill: Bill, deadline: Deadline) -> None:
        self.member_names = ensemble.member_names
        self.classes = ensemble.classes
        self._ensemble = ensemble
        self._bill = bill
        self._deadline = deadline
        self._charges = np.zeros(0, dtype=np.intp)

    @property
    def charges(self) -> NDArray[np.intp]:
        """What is to be told of each record of the last call (n,)."""
        return self._charges

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> probabilities (m, n, K)"""
        self._deadline.check(f"{len(records)} records")
        keys = record_keys(records)
        try:
            return self._ensemble.predict_proba(records)
        finally:
            self._charges = self._bill.tell(keys, self._ensemble.charges)


ROW = re.compile(r"^Row \d+: ")
"""Constraint errors count the rows of a matrix; here the error stands beside its record."""


@dataclass(frozen=True, eq=False)
class ReadyOrder:
    """An order, parsed: rows (g,) are the positions of the records that can be searched, errors of the others (n,)."""

    order: ExplainOrder
    feasible: FeasibleSet
    target: Targets
    rows: NDArray[np.intp]
    errors: tuple[str | None, ...]


@dataclass(frozen=True, eq=False)
class _Read:
    """The records (g, F) of an order that the schema can read, where they stand, and what is wrong with the others."""

    order: ExplainOrder
    records: Records
    places: list[int]
    errors: list[str | None]


def parse_orders(model: RecourseModel, orders: Sequence[ExplainOrder]) -> list[ReadyOrder | Exception]:
    """One entry an order: what is wrong with an order as a whole is its entry."""
    parsed: list[ReadyOrder | Exception | None] = [None] * len(orders)
    alike: dict[Hashable, dict[int, _Read]] = {}
    for position, order in enumerate(orders):
        try:
            read = _read(model, order)
            alike.setdefault(_constraints_key(order), {})[position] = read
        # Whatever one order brings is its own outcome, and fails nobody else.
        except Exception as error:
            parsed[position] = error
    for group in alike.values():
        for position, ready in zip(group, _prepare_alike(model, list(group.values())), strict=True):
            parsed[position] = ready
    return [entry for entry in parsed if entry is not None]


def _read(model: RecourseModel, order: ExplainOrder) -> _Read:
    schema = model.encoder.schema
    target_codes(model, order.target, 0)
    errors: list[str | None] = [None] * len(order.records)
    rows, places = [np.empty((0, len(schema.features)))], []
    for position, record in enumerate(order.records):
        try:
            rows.append(check_record(schema, record))
            places.append(position)
        except RecordError as error:
            errors[position] = str(error)
    return _Read(order, np.concatenate(rows), places, errors)


def _constraints_key(order: ExplainOrder) -> Hashable:
    return frozenset(order.immutable), frozenset(order.ranges.items()), frozenset(order.directions.items())


def _prepare_alike(model: RecourseModel, group: Sequence[_Read]) -> Sequence[ReadyOrder | Exception]:
    """Orders with the same constraints: to compile them takes longer than to check a record."""
    order = group[0].order
    constraints = Constraints(frozenset(order.immutable), order.ranges, order.directions)
    try:
        prepared = prepare(
            model.encoder.schema,
            model.generated_features,
            constraints,
            np.concatenate([read.records for read in group]),
        )
    # It is the outcome of all who share these constraints, and of nobody else.
    except Exception as error:
        return [error] * len(group)
    starts = np.cumsum([0, *(len(read.places) for read in group)]).tolist()
    return [_ready(model, read, prepared, start) for read, start in zip(group, starts[:-1], strict=True)]


def _ready(model: RecourseModel, read: _Read, prepared: Prepared, start: int) -> ReadyOrder:
    """The order whose records begin at row `start` of what was prepared."""
    end = start + len(read.places)
    for place, fault in zip(read.places, prepared.errors[start:end], strict=True):
        read.errors[place] = None if fault is None else ROW.sub("", fault)
    first, last = np.searchsorted(prepared.rows, [start, end])
    whole = first == 0 and last == len(prepared.rows)
    feasible = prepared.feasible if whole else prepared.feasible.rows(np.arange(first, last))
    rows = np.array(read.places, dtype=np.intp)[prepared.rows[first:last] - start]
    target = target_codes(model, read.order.target, len(rows))
    return ReadyOrder(read.order, feasible, target, rows, tuple(read.errors))


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
        cost_weight=DEFAULT.cost_weight if order.price is None else order.price,
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
    feasible, target = join([one.feasible for one in ready]), np.concatenate([one.target for one in ready])
    config = config_of(ready[0].order)
    if not len(target):
        found = []
    elif config.max_queries:
        ends = [one.order.deadline for one in ready]
        # What is under way is paid for, so it may end; but nothing more is asked once the time of one order is over.
        with version.meter().open(config.max_queries * len(target), deadline=Deadline(max(ends))) as ensemble:
            try:
                billed = BilledEnsemble(ensemble, bill, Deadline(min(ends)))
                found = _search_each(version.model, target, feasible, config, billed, bill)
            finally:
                count(ensemble.spent, ensemble.reused)
    else:
        found = _search_each(version.model, target, feasible, config, None, bill)
    starts = np.cumsum([0, *(len(one.rows) for one in ready)]).tolist()
    return [_answer(version.model, one, found[start:]) for one, start in zip(ready, starts[:-1], strict=True)]


def _search_each(
    model: RecourseModel,
    target: Targets,
    feasible: FeasibleSet,
    config: SearchConfig,
    ensemble: Ensemble | None,
    bill: Bill,
) -> list[Explanation]:
    """The search; where it fails on some record, halves are searched until that record is alone with its error."""
    mark = bill.mark()
    try:
        return search(model, target, feasible, config, ensemble)
    except SolverError as error:
        if len(target) == 1:
            return [Explanation(Status.ERROR, (), 0, error=str(error), charged=bill.told_since(mark))]
    bill.back_to(mark)
    halves = np.array_split(np.arange(len(target)), 2)
    again = partial(_search_each, model, config=config, ensemble=ensemble, bill=bill)
    return [answer for half in halves for answer in again(target[half], feasible.rows(half))]


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
    paths = trace(model, ready.target[chosen], ready.feasible.rows(chosen), answers, order.candidates, order.seed)
    return dict(zip(ready.rows[chosen].tolist(), paths, strict=True))
