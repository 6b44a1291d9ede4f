"""One micro-batch: tasks of one version and one search configuration, searched together. It blocks.

Read the tasks, search, charge, write the answers. A task that cannot be run is an error of its own, and so is a record:
neither fails its neighbours. Each record is checked by itself; equal constraints are compiled once a batch.

Where a search is repeated, it asks the same records, which are free by then: the bill knows what they cost, and the
answers of the search that came to its end report it.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.concurrency import Deadline
from app.ensembles.bought import record_keys
from app.errors import DeadlineError
from app.explain.answer import record_answer
from app.explain.contract import ExplainAnswer, ExplainRequest, ExplainTask
from app.explain.engine.versions import LoadedVersion
from models.arrays import Records, Targets
from models.config import SearchConfig
from models.data.records import ReadRecords, check_record, read_each
from models.ensemble.protocol import Ensemble, charges_of
from models.errors import QueryLimitError, RecourseError, SolverError
from models.model import RecourseModel
from models.search.answers import Explanation, PathPoint, Status
from models.search.search import search, target_codes
from models.search.trajectory import trace
from models.space.constraints import join
from models.space.feasible import FeasibleSet
from models.space.prepared import Prepared


class Bill:
    """What a batch paid for each record, and how much of it its answers report."""

    def __init__(self) -> None:
        self._paid: Counter[bytes] = Counter()
        self._reported: Counter[bytes] = Counter()

    def charge(self, keys: Sequence[bytes], paid: NDArray[np.intp]) -> NDArray[np.intp]:
        """Add what was paid for records (n,) just now; return what to report of each (n,): whatever is unreported."""
        reported = np.zeros(len(keys), dtype=np.intp)
        for position, (key, cost) in enumerate(zip(keys, paid.tolist(), strict=True)):
            self._paid[key] += cost
            reported[position] = self._paid[key] - self._reported[key]
            self._reported[key] = self._paid[key]
        return reported

    def mark(self) -> Counter[bytes]:
        """A moment to go back to."""
        return self._reported.copy()

    def reported_since(self, mark: Counter[bytes]) -> int:
        return self._reported.total() - mark.total()

    def back_to(self, mark: Counter[bytes]) -> None:
        """The search since then broke off: nobody has read what it reported."""
        self._reported = mark


class BilledEnsemble:
    """An ensemble whose charges are what the bill says, and that is asked nothing after the deadline."""

    def __init__(self, ensemble: Ensemble, bill: Bill, deadline: Deadline) -> None:
        self.member_names = ensemble.member_names
        self.classes = ensemble.classes
        self._ensemble = ensemble
        self._bill = bill
        self._deadline = deadline
        self._charges = np.zeros(0, dtype=np.intp)

    @property
    def charges(self) -> NDArray[np.intp]:
        """What to report of each record of the last call (n,)."""
        return self._charges

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> probabilities (m, n, K)"""
        self._deadline.check(f"{len(records)} records")
        keys = record_keys(records)
        try:
            return self._ensemble.predict_proba(records)
        finally:
            self._charges = self._bill.charge(keys, charges_of(self._ensemble, len(records)))


ROW = re.compile(r"^Row \d+: ")
"""Constraint errors count the rows of a matrix; here the error stands beside its record."""


@dataclass(frozen=True, eq=False)
class ReadyTask:
    """A task, read: rows (g,) are the places of the records that can be searched, errors what is wrong with others."""

    task: ExplainTask
    feasible: FeasibleSet
    target: Targets
    rows: NDArray[np.intp]
    errors: list[str | None]


def read_tasks(model: RecourseModel, tasks: Sequence[ExplainTask]) -> list[ReadyTask | Exception]:
    """One entry a task: what is wrong with a task as a whole is its entry."""
    found: dict[int, ReadyTask | Exception] = {}
    alike: dict[Hashable, dict[int, ReadRecords]] = {}
    for place, task in enumerate(tasks):
        try:
            target_codes(model, task.request.target, 0)
            read = read_each(model.encoder.schema, task.request.records)
            alike.setdefault(_constraints_key(task.request), {})[place] = read
        # Whatever one task brings is its own outcome, and fails nobody else.
        except Exception as error:
            found[place] = error
    for group in alike.values():
        ready = _compile_alike(model, [tasks[place] for place in group], list(group.values()))
        found.update(zip(group, ready, strict=True))
    return [found[place] for place in range(len(tasks))]


def _constraints_key(request: ExplainRequest) -> Hashable:
    return request.constraints.model_dump_json(), tuple(request.levers)


def _compile_alike(
    model: RecourseModel, tasks: Sequence[ExplainTask], read: Sequence[ReadRecords]
) -> Sequence[ReadyTask | Exception]:
    """Tasks with the same constraints: to compile them takes longer than to check a record."""
    records, constraints = np.concatenate([one.records for one in read]), tasks[0].request.search_constraints()
    try:
        prepared = model.prepared(constraints, records)
    # It is the outcome of all who share these constraints, and of nobody else.
    except Exception as error:
        return [error] * len(tasks)
    starts = np.cumsum([0, *(len(one.places) for one in read)]).tolist()
    return [_ready(model, task, one, prepared, at) for task, one, at in zip(tasks, read, starts[:-1], strict=True)]


def _ready(model: RecourseModel, task: ExplainTask, read: ReadRecords, prepared: Prepared, start: int) -> ReadyTask:
    """The task whose records begin at row `start` of what was prepared."""
    end, errors = start + len(read.places), list(read.errors)
    for place, fault in zip(read.places, prepared.errors[start:end], strict=True):
        errors[place] = None if fault is None else ROW.sub("", fault)
    first, last = np.searchsorted(prepared.rows, [start, end])
    whole = first == 0 and last == len(prepared.rows)
    feasible = prepared.feasible if whole else prepared.feasible.rows(np.arange(first, last))
    rows = np.array(read.places, dtype=np.intp)[prepared.rows[first:last] - start]
    return ReadyTask(task, feasible, target_codes(model, task.request.target, len(rows)), rows, errors)


Outcome: TypeAlias = ExplainAnswer | Exception
CountQueries: TypeAlias = Callable[[int, int], None]
"""Called with how many queries were charged, and how many records were answered without."""


def count_nothing(charged: int, reused: int) -> None:
    """For who has no metrics."""


def run_batch(
    version: LoadedVersion, tasks: Sequence[ExplainTask], count: CountQueries = count_nothing
) -> list[Outcome]:
    """One outcome a task. All tasks have the same `search_config`."""
    read = read_tasks(version.model, tasks)
    found = iter(_answer_all(version, [one for one in read if isinstance(one, ReadyTask)], count, Bill()))
    return [next(found) if isinstance(one, ReadyTask) else one for one in read]


def _answer_all(
    version: LoadedVersion, ready: Sequence[ReadyTask], count: CountQueries, bill: Bill
) -> Sequence[Outcome]:
    """Search the tasks together; one by one where their common reservation does not fit or a fault of ours shows.

    When some run out of time, the others are searched again without them. What the ensemble answered before is
    kept, so that asking again is free; the bill remembers what it cost.
    """
    if not ready:
        return []
    mark = bill.mark()
    try:
        return _search_together(version, ready, count, bill)
    except DeadlineError as error:
        now = time.monotonic()
        left = [one for one in ready if one.task.deadline > now]
        bill.back_to(mark)
        if len(left) == len(ready):
            return [error] * len(ready)
        found = iter(_answer_all(version, left, count, bill))
        return [next(found) if one.task.deadline > now else error for one in ready]
    # A fault that one task brings must not fail its neighbours; alone, it is that task's outcome.
    except Exception as error:
        if len(ready) == 1 or (isinstance(error, RecourseError) and not isinstance(error, QueryLimitError)):
            return [error] * len(ready)
    bill.back_to(mark)
    return [outcome for one in ready for outcome in _answer_all(version, [one], count, bill)]


def _search_together(
    version: LoadedVersion, ready: Sequence[ReadyTask], count: CountQueries, bill: Bill
) -> list[Outcome]:
    """One search, verified with one reservation of the tasks' maximum."""
    feasible, target = join([one.feasible for one in ready]), np.concatenate([one.target for one in ready])
    config = ready[0].task.request.search_config()
    if not len(target):
        found = []
    elif config.max_queries:
        ends = [one.task.deadline for one in ready]
        # What is under way is paid for, so it may end; but nothing more is asked once the time of one task is over.
        with version.meter().open(config.max_queries * len(target), deadline=Deadline(max(ends))) as ensemble:
            try:
                billed = BilledEnsemble(ensemble, bill, Deadline(min(ends)))
                found = _search_each(version.model, target, feasible, config, billed, bill)
            finally:
                count(ensemble.charged, ensemble.reused)
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
            return [Explanation(Status.ERROR, (), 0, error=str(error), charged=bill.reported_since(mark))]
    bill.back_to(mark)
    halves = np.array_split(np.arange(len(target)), 2)
    again = partial(_search_each, model, config=config, ensemble=ensemble, bill=bill)
    return [answer for half in halves for answer in again(target[half], feasible.rows(half))]


def _answer(model: RecourseModel, ready: ReadyTask, found: Sequence[Explanation]) -> ExplainAnswer:
    answers = [Explanation(Status.ERROR, (), 0, error=error) for error in ready.errors]
    for row, answer in zip(ready.rows, found, strict=False):
        answers[row] = answer
    paths = _trajectories(model, ready, found) if ready.task.request.trajectory else {}
    language = ready.task.request.language
    written = (record_answer(answer, model.policy, language, paths.get(row)) for row, answer in enumerate(answers))
    return ExplainAnswer(tuple(written))


def _trajectories(
    model: RecourseModel, ready: ReadyTask, found: Sequence[Explanation]
) -> dict[int, tuple[PathPoint, ...]]:
    """The way to each first counterfactual, by the record's position."""
    places = [place for place in range(len(ready.rows)) if found[place].counterfactuals]
    if not places:
        return {}
    ends: list[Records] = [
        check_record(model.encoder.schema, found[place].counterfactuals[0].record) for place in places
    ]
    chosen, request = np.array(places, dtype=np.intp), ready.task.request
    answers, feasible = np.concatenate(ends), ready.feasible.rows(chosen)
    paths = trace(model, ready.target[chosen], feasible, answers, request.candidates, request.seed)
    return dict(zip(ready.rows[chosen].tolist(), paths, strict=True))
