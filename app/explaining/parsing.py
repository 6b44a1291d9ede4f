"""Orders made ready for the search: each record is checked by itself, equal constraints are compiled once a batch."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.explaining.protocol import ExplainOrder
from models.allowed import Allowed
from models.constraints import Constraints
from models.errors import RecordError
from models.matrix import Records
from models.model import RecourseModel
from models.prepared import Prepared, prepare
from models.records import check_record
from models.scoring import Targets
from models.search import target_codes

ROW = re.compile(r"^Row \d+: ")
"""Constraint errors count the rows of a matrix; here the error stands beside its record."""


@dataclass(frozen=True, eq=False)
class ReadyOrder:
    """An order, parsed: rows (g,) are the positions of the records that can be searched, errors of the others (n,)."""

    order: ExplainOrder
    allowed: Allowed
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
        prepared = prepare(model, constraints, np.concatenate([read.records for read in group]))
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
    allowed = prepared.allowed if whole else prepared.allowed.rows(np.arange(first, last))
    rows = np.array(read.places, dtype=np.intp)[prepared.rows[first:last] - start]
    target = target_codes(model, read.order.target, len(rows))
    return ReadyOrder(read.order, allowed, target, rows, tuple(read.errors))
