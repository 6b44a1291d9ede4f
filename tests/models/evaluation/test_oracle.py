"""The oracle against ensembles whose best answer is known."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from models.arrays import Records, Targets
from models.config import OracleConfig
from models.data.schema import Direction, Feature, FeatureKind, Schema
from models.ensemble.votes import agreement
from models.errors import ConfigError, DataError, QueryLimitError
from models.evaluation.oracle import oracle
from models.space.constraints import Constraints, compile_constraints, violations
from models.space.encoding import Encoder, cost
from tests.models.tiny import Scorecards, Task, feasible_by_schema

INCOME, DEBT, PURPOSE = range(3)
SCHEMA = Schema(
    (
        Feature("income", FeatureKind.INTEGER, 0, 100),
        Feature("debt", FeatureKind.NUMERIC, 0.0, 5.0, 0.1),
        Feature("purpose", FeatureKind.CATEGORICAL, categories=("car", "home", "study")),
    ),
    "label",
    ("no", "yes"),
)
YES = 1


class Thresholds:
    """Members that accept from an income on; they count what they are asked."""

    classes = ("no", "yes")

    def __init__(self, *thresholds: float) -> None:
        self.thresholds, self.asked = thresholds, 0

    @property
    def member_names(self) -> tuple[str, ...]:
        return tuple(f"from {threshold}" for threshold in self.thresholds)

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        self.asked += len(records)
        yes = np.stack([records[:, INCOME] >= threshold for threshold in self.thresholds]).astype(np.float64)
        return np.stack([1 - yes, yes], axis=2)


class Table:
    """Members that look a record of three categories up in a table (m, 4, 4, 4) of what they accept."""

    classes = ("no", "yes")

    def __init__(self, accepts: NDArray[np.bool_]) -> None:
        self.accepts = accepts

    @property
    def member_names(self) -> tuple[str, ...]:
        return tuple(f"table {member}" for member in range(len(self.accepts)))

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        yes = self.accepts[:, *records.astype(np.intp).T].astype(np.float64)
        return np.stack([1 - yes, yes], axis=2)


def draw(rows: int, seed: int = 0) -> Records:
    random = np.random.default_rng(seed)
    columns = [random.integers(0, 101, rows), random.integers(0, 51, rows) / 10, random.integers(0, 3, rows)]
    return np.stack(columns, axis=1).astype(np.float64)


def targets(count: int) -> Targets:
    return np.full(count, YES, dtype=np.int64)


def test_only_what_the_threshold_needs_is_changed_and_no_further_than_needed() -> None:
    training, refused = draw(300), draw(40, seed=1)
    refused[:, INCOME] = np.minimum(refused[:, INCOME], 49)
    ensemble, encoder = Thresholds(40, 50, 60), Encoder.fit(SCHEMA, training)
    answers = oracle(ensemble, encoder, training, feasible_by_schema(encoder, refused), targets(40))
    expected = refused.copy()
    expected[:, INCOME] = 60
    assert answers.records.tolist() == expected.tolist()
    assert (answers.agreement == 1.0).all()
    assert answers.queries == ensemble.asked


def test_where_nobody_has_all_models_the_most_agreeing_record_is_brought_back() -> None:
    training, refused = draw(300), draw(20, seed=1)
    refused[:, INCOME] = np.minimum(refused[:, INCOME], 39)
    encoder = Encoder.fit(SCHEMA, training)
    answers = oracle(Thresholds(40, 50, 999), encoder, training, feasible_by_schema(encoder, refused), targets(20))
    np.testing.assert_allclose(answers.agreement, 2 / 3)
    assert (answers.records[:, INCOME] == 50).all()
    assert (answers.records[:, DEBT:] == refused[:, DEBT:]).all()


def test_what_is_frozen_stays_and_a_range_is_met() -> None:
    training, refused = draw(300), draw(20, seed=1)
    refused[:, INCOME] = np.minimum(refused[:, INCOME], 39)
    encoder = Encoder.fit(SCHEMA, training)
    request = Constraints(frozenset({"debt"}), {"income": (0, 55), "purpose": ("home",)})
    feasible = compile_constraints(SCHEMA, request, refused)
    answers = oracle(Thresholds(40, 50, 60), encoder, training, feasible, targets(20))
    assert not violations(SCHEMA, refused, answers.records, feasible).any()
    np.testing.assert_allclose(answers.agreement, 2 / 3)
    assert (answers.records[:, INCOME] == 50).all() and (answers.records[:, PURPOSE] == 1).all()


def test_a_feature_that_may_only_fall_cannot_be_raised() -> None:
    training, refused = draw(300), draw(20, seed=1)
    refused[:, INCOME] = np.minimum(refused[:, INCOME], 39)
    encoder = Encoder.fit(SCHEMA, training)
    feasible = compile_constraints(SCHEMA, Constraints(directions={"income": Direction.DOWN}), refused)
    answers = oracle(Thresholds(40, 50), encoder, training, feasible, targets(20))
    assert not violations(SCHEMA, refused, answers.records, feasible).any()
    assert (answers.agreement == 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_with_categories_alone_the_answer_is_the_cheapest_of_all_changes_of_one_or_two(seed: int) -> None:
    features = tuple(
        Feature(name, FeatureKind.CATEGORICAL, categories=("a", "b", "c", "d")) for name in ("p", "q", "r")
    )
    schema = Schema(features, "label", ("no", "yes"))
    every: Records = np.array(list(product(range(4), repeat=3)), dtype=np.float64)
    encoder = Encoder.fit(schema, every)
    accepts = np.random.default_rng(seed).random((3, 4, 4, 4)) < 0.5
    yes = accepts[:, *every.astype(np.intp).T].all(axis=0)
    assert 0 < yes.sum() < len(every)
    refused, training = every[~yes], every[yes][:2]
    answers = oracle(Table(accepts), encoder, training, feasible_by_schema(encoder, refused), targets(len(refused)))
    assert (answers.agreement == 1.0).all()
    paid = cost(encoder.encode(answers.records), encoder.encode(refused))
    accepted = np.concatenate([every[yes], training])
    for row, record in enumerate(refused):
        distance = cost(encoder.encode(accepted), encoder.encode(refused[row : row + 1]))
        near = (accepted != record).sum(axis=1) <= 2
        if near.any():
            assert paid[row] <= distance[near].min() + 1e-9
        assert paid[row] >= distance.min() - 1e-9


def test_on_mixed_records_with_gaps_the_answers_are_allowed_no_dearer_than_their_start_and_honest(
    loans_task: Task,
) -> None:
    encoder, ensemble = loans_task.encoder, Scorecards(loans_task.encoder)
    records = loans_task.test.records
    said = ensemble.predict_proba(records).argmax(axis=2)
    refused = records[(said == 0).all(axis=0)]
    assert np.isnan(refused).any()
    feasible, target = feasible_by_schema(encoder, refused), targets(len(refused))
    answers = oracle(ensemble, encoder, loans_task.training.records, feasible, target)
    assert not violations(encoder.schema, refused, answers.records, feasible).any()
    assert answers.agreement.tolist() == agreement(ensemble.predict_proba(answers.records), target).tolist()
    first = oracle(ensemble, encoder, loans_task.training.records, feasible, target, OracleConfig(rounds=1))
    paid = [cost(encoder.encode(found.records), encoder.encode(refused)) for found in (answers, first)]
    assert (paid[0] <= paid[1] + 1e-9).all()
    assert answers.agreement.mean() > 0.9


def test_the_limit_holds_and_a_limit_too_small_to_start_is_an_error() -> None:
    training, refused = draw(300), draw(20, seed=1)
    refused[:, INCOME] = 0
    encoder, ensemble = Encoder.fit(SCHEMA, training), Thresholds(40, 50, 95)
    feasible = feasible_by_schema(encoder, refused)
    oracle(ensemble, encoder, training, feasible, targets(20), OracleConfig(queries=170))
    assert 100 < ensemble.asked <= 170
    with pytest.raises(QueryLimitError, match="of 5 are spent"):
        oracle(ensemble, encoder, training, feasible, targets(20), OracleConfig(queries=5))


def test_settings_and_training_records_are_checked() -> None:
    with pytest.raises(ConfigError, match="rounds is 0"):
        OracleConfig(rounds=0)
    with pytest.raises(ConfigError, match="halvings is -1"):
        OracleConfig(halvings=-1)
    refused = draw(3)
    encoder = Encoder.fit(SCHEMA, refused)
    with pytest.raises(DataError, match="there are 0"):
        oracle(Thresholds(40), encoder, refused[:0], feasible_by_schema(encoder, refused), targets(3))
