"""A request's records made ready for the search: its constraints and the model's action policy, compiled together."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import Records
from ..data.policy import Policy
from ..data.schema import Direction, Schema
from ..errors import ConstraintError
from .binding import bind
from .compiled_policy import compile_policy
from .constraints import Constraints, compile_each
from .feasible import FeasibleSet


@dataclass(frozen=True, eq=False)
class Prepared:
    """The g records of n that can be searched: rows (g,) where they stand, and what is wrong with the others (n,)."""

    feasible: FeasibleSet
    rows: NDArray[np.intp]
    errors: tuple[str | None, ...]


def prepare(
    schema: Schema, generated_features: frozenset[str], constraints: Constraints, records: Records, policy: Policy
) -> Prepared:
    """records (n, F) under one request's constraints and the policy; ConstraintError for what no record could meet

    generated_features: the features that the generator may change; all others count as immutable, unless they follow
    from others
    """
    _check_directions(schema, constraints)
    frozen, smallest = frozenset(schema.names) - generated_features, smallest_changes(schema)
    if not (policy.features or policy.rules or smallest):
        feasible, errors = compile_each(schema, replace(constraints, immutable=constraints.immutable | frozen), records)
    else:
        compiled = compile_policy(schema, policy, smallest)
        immutable = constraints.immutable | (frozen - compiled.follow)
        base, errors = compile_each(compiled.schema, replace(constraints, immutable=immutable), records)
        actions, more = bind(compiled, base, constraints.levers, constraints.months)
        errors = [error or other for error, other in zip(errors, more, strict=True)]
        weights = base.hardness() * compiled.weights
        feasible = replace(
            actions.feasible, most=base.most, weights=None if (weights == 1.0).all() else weights, rules=actions
        )
    rows = np.flatnonzero([error is None for error in errors])
    feasible = feasible if len(rows) == len(records) else feasible.rows(rows)
    return Prepared(feasible, rows, tuple(None if error is None else str(error) for error in errors))


def _check_directions(schema: Schema, constraints: Constraints) -> None:
    """One way by the schema and the other by the request would freeze a feature without a word."""
    for feature in schema.features:
        asked = constraints.directions.get(feature.name, Direction.ANY)
        if not feature.immutable and {asked, feature.direction} == {Direction.UP, Direction.DOWN}:
            fact = f"'{feature.name}' may only go {feature.direction} by the model's schema and {asked} by the request"
            raise ConstraintError(f"{fact}; leave the direction out, or freeze the feature with immutable.")


def smallest_changes(schema: Schema) -> tuple[tuple[str, float], ...]:
    """The smallest change worth making of each number that has one"""
    return tuple((feature.name, feature.smallest) for feature in schema.features if feature.smallest > 0)
