"""Requests made ready for one search: each record with the constraints of its own request."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.allowed import Allowed
from models.constraints import Constraints, check_constraints, compile_constraints
from models.errors import ConstraintError
from models.matrix import Records
from models.model import RecourseModel


@dataclass(frozen=True, eq=False)
class Prepared:
    """The g records of n that can be searched: rows (g,) where they stand, and what is wrong with the others (n,)."""

    allowed: Allowed
    rows: NDArray[np.intp]
    errors: tuple[str | None, ...]


def prepare(model: RecourseModel, constraints: Constraints, records: Records) -> Prepared:
    """records (n, F) under one request's constraints; ConstraintError for what no record could meet"""
    frozen = frozenset(model.encoder.schema.names) - model.flowing
    constraints = replace(constraints, immutable=constraints.immutable | frozen)
    schema = model.encoder.schema
    try:
        allowed = compile_constraints(schema, constraints, records)
    except ConstraintError:
        # Only now is it worth a second look, which tells the records apart.
        errors = check_constraints(schema, constraints, records)
        rows = np.flatnonzero([error is None for error in errors])
        allowed = compile_constraints(schema, constraints, records[rows])
        return Prepared(allowed, rows, tuple(None if error is None else str(error) for error in errors))
    return Prepared(allowed, np.arange(len(records)), (None,) * len(records))


def join(parts: Sequence[Allowed]) -> Allowed:
    """The records of several requests, one after the other; categories that all of them share stay one copy."""
    if len(parts) == 1:
        return parts[0]
    return Allowed(
        origin=np.concatenate([part.origin for part in parts]),
        lower=np.concatenate([part.lower for part in parts]),
        upper=np.concatenate([part.upper for part in parts]),
        levels=_join_levels(parts),
        movable=np.concatenate([part.movable for part in parts]),
        missing=np.concatenate([part.missing for part in parts]),
    )


def _join_levels(parts: Sequence[Allowed]) -> NDArray[np.bool_]:
    """(n, F, Kmax) of all parts"""
    filled = [part.levels for part in parts if len(part)]
    shared = all(levels.strides[0] == 0 and np.array_equal(levels[0], filled[0][0]) for levels in filled)
    if filled and shared:
        return np.broadcast_to(filled[0][0], (sum(len(part) for part in parts), *filled[0].shape[1:]))
    return np.concatenate([part.levels for part in parts])
