"""Action policies in compiled form agree with the checker that was written from their documentation alone."""

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from numpy.random import Generator

from benchmarks.actions.checker import broken, count_actions
from benchmarks.actions.random_policies import (
    random_candidates,
    random_policy,
    random_records,
    random_request,
    random_schema,
)
from models.arrays import Records
from models.data.grid import Grid
from models.data.policy import Lever, Policy
from models.data.policy_checks import policy_faults
from models.data.records import from_records
from models.data.schema import Schema
from models.search.exhaustive import reachable
from models.space.actions import Actions
from models.space.binding import bind
from models.space.compiled_policy import compile_policy
from models.space.constraints import Constraints, compile_each, violations
from models.space.repair import repair
from models.space.rules import differs
from tests.models.schemas import requests, schemas


def fits(condition: bool) -> None:
    """As `assume`, also outside of a property."""
    if not condition:
        raise UnsatisfiedAssumption


def bound(
    schema: Schema, document: dict[str, Any], origin: Records, request: Constraints, levers: list[str], months: int
) -> Actions:
    """The actions of those records that the request and the policy leave something."""
    compiled = compile_policy(schema, Policy.from_json(document))
    good = [row for row, error in enumerate(compile_each(compiled.schema, request, origin)[1]) if error is None]
    fits(bool(good))
    base = compile_each(compiled.schema, request, origin[good])[0]
    actions, errors = bind(compiled, base, [Lever(lever) for lever in levers], months)
    left = [place for place, error in enumerate(errors) if error is None]
    fits(bool(left))
    return actions.rows(np.array(left))


def as_json(request: Constraints) -> dict[str, Any]:
    return {
        "immutable": list(request.immutable),
        "ranges": dict(request.ranges),
        "directions": {name: str(way) for name, way in request.directions.items()},
    }


@dataclass(frozen=True)
class Problem:
    """A random policy on a random schema, and records for it."""

    schema: Schema
    document: dict[str, Any]
    asked: dict[str, Any]
    actions: Actions
    random: Generator

    @classmethod
    def of(cls, seed: int, request: Constraints | None = None, schema: Schema | None = None) -> "Problem":
        random = np.random.default_rng(seed)
        schema = schema or random_schema(random, int(random.integers(2, 8)))
        document, asked = random_policy(schema, random), random_request(random)
        fits(not list(policy_faults(schema, Policy.from_json(document))))
        origin, request = random_records(schema, random, 4, document), request or Constraints()
        actions = bound(schema, document, origin, request, asked["levers"], asked["horizon_months"])
        return cls(schema, document, asked | as_json(request), actions, random)

    def candidates(self, count: int) -> Records:
        """(n, 4 * count + 1, F): as drawn, completed, completed after a wait, and the origin"""
        origin, horizon = self.actions.origin, self.actions.horizon
        drawn = random_candidates(self.schema, self.random, origin, count)
        few = np.where(self.random.random(drawn.shape) < 0.3, drawn, origin[:, None])
        months = self.random.integers(0, horizon[:, None] + 1, drawn.shape[:2])
        whole = [self.actions.complete(part) for part in (drawn, few)]
        return np.concatenate([drawn, *whole, self.actions.complete(few, months), origin[:, None]], axis=1)

    def check(self) -> int:
        """How many candidates that change something are allowed; all of them as the checker says."""
        tried = self.candidates(6)
        allowed, counts = self.actions.allowed(tried), self.actions.count_actions(tried)
        few = self.actions.allowed(tried, max_changes=2)
        plain, changed = self.schema.to_json(), 0
        for row, own in enumerate(from_records(self.schema, self.actions.origin)):
            for place, answer in enumerate(from_records(self.schema, tried[row])):
                faults = broken(self.document, plain, own, answer, self.asked)
                assert allowed[row, place] == (not faults), (faults, own, answer, self.document, self.asked)
                assert counts[row, place] == count_actions(self.document, own, answer)
                assert few[row, place] == (allowed[row, place] and counts[row, place] <= 2)
                changed += bool(allowed[row, place] and own != answer)
        return changed


SEEDS = st.integers(0, 2**40)
MOST_POINTS = 40_000


@settings(max_examples=80)
@given(SEEDS)
def test_what_is_allowed_is_what_the_checker_finds_nothing_wrong_with(seed: int) -> None:
    Problem.of(seed).check()


@settings(max_examples=30)
@given(st.data())
def test_requests_and_odd_schemas_are_kept_too(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    Problem.of(data.draw(SEEDS), data.draw(requests(schema)), schema).check()


def test_the_random_problems_are_not_empty() -> None:
    found = []
    for seed in range(40):
        with contextlib.suppress(UnsatisfiedAssumption):
            found.append(Problem.of(seed).check())
    assert len(found) > 20 and sum(count > 0 for count in found) > 15


@settings(max_examples=30)
@given(SEEDS)
def test_what_is_complete_stays_as_it_is_alone_and_in_a_batch(seed: int) -> None:
    problem = Problem.of(seed)
    actions, tried = problem.actions, problem.candidates(2)
    whole, own = actions.complete(tried), actions.origin[:, None]
    np.testing.assert_array_equal(actions.complete(whole), whole)
    np.testing.assert_array_equal(actions.complete(own), own)
    assert actions.allowed(own).all()
    np.testing.assert_array_equal(actions.broken(whole).any(axis=2) & actions.allowed(whole), False)
    for place in range(len(actions)):
        alone = actions.rows(np.array([place]))
        for position in range(whole.shape[1]):
            one = tried[[place]][:, [position]]
            np.testing.assert_array_equal(alone.complete(one)[0, 0], whole[place, position])
            assert alone.allowed(one)[0, 0] == actions.allowed(tried)[place, position]


@settings(max_examples=30)
@given(SEEDS)
def test_what_is_decoded_into_the_feasible_set_and_settled_is_allowed_or_known_not_to_be(seed: int) -> None:
    problem = Problem.of(seed)
    actions = problem.actions
    decoded = into(problem, problem.candidates(4))
    settled, ok = actions.settle(decoded)
    np.testing.assert_array_equal(settled, actions.complete(decoded))
    np.testing.assert_array_equal(ok, actions.allowed(settled))
    schema, limits = actions.policy.schema, actions.limits.repeat(settled.shape[1])
    flat = settled.reshape(-1, settled.shape[2])
    assert not violations(schema, limits.origin, flat, limits)[ok.ravel()].any()


def into(problem: Problem, tried: Records) -> Records:
    """Candidates whose values are not in the feasible set keep their own there, as a decoder would."""
    feasible = problem.actions.feasible.repeat(tried.shape[1])
    flat = tried.reshape(-1, tried.shape[2])
    off = violations(problem.actions.policy.schema, feasible.origin, flat, feasible)
    return np.where(off, feasible.origin, flat).reshape(tried.shape)


@settings(max_examples=30)
@given(SEEDS)
def test_what_is_repaired_breaks_nothing(seed: int) -> None:
    problem = Problem.of(seed)
    actions = problem.actions
    tried = into(problem, problem.candidates(4))
    settled, ok = actions.settle(tried)
    repaired, fine = repair(actions, tried)
    np.testing.assert_array_equal(fine, True)
    np.testing.assert_array_equal(actions.allowed(repaired), True)
    np.testing.assert_array_equal(repaired[ok], settled[ok])
    for place in range(len(actions)):
        alone = repair(actions.rows(np.array([place])), tried[[place]][:, [1]])[0]
        np.testing.assert_array_equal(alone[0, 0], repaired[place, 1])


def every_record(schema: Schema, own: Records) -> Records:
    """own (F,) -> all records of grid values and own values (p, F)"""
    values = []
    for feature, mine in zip(schema.features, own, strict=True):
        count = round((feature.upper - feature.lower) / feature.step) + 1
        listed = Grid.of(feature.step).snap(np.array([feature.lower + k * feature.step for k in range(count)]))
        values.append(np.unique(np.append(listed, mine)))
    fits(math.prod(len(each) for each in values) <= MOST_POINTS)
    return np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(-1, len(own))


def distinct(records: Records) -> Records:
    """Each record once, in order; a missing value is infinite"""
    return np.unique(np.where(np.isnan(records), np.inf, records), axis=0)


@settings(max_examples=25)
@given(SEEDS)
def test_what_is_reachable_is_all_that_is_allowed(seed: int) -> None:
    """No way is missed: of every record that there is, those that are allowed are those that are listed."""
    random = np.random.default_rng(seed)
    problem = Problem.of(seed, schema=random_schema(random, 3))
    for row in range(min(2, len(problem.actions))):
        alone = problem.actions.rows(np.array([row]))
        everything = every_record(problem.schema, alone.origin[0])
        changed = differs(everything, alone.origin).any(axis=1)
        expected = everything[alone.allowed(everything[None])[0] & changed]
        feasible = replace(alone.feasible, rules=alone)
        found = reachable(alone.policy.schema, feasible, 100 * MOST_POINTS)
        assert found is not None
        np.testing.assert_array_equal(distinct(found), distinct(expected))
