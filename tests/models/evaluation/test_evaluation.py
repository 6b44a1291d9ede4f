"""The evaluation: who is a case, what is measured, and that it is measured again."""

from dataclasses import replace

import numpy as np
import pytest

from models.config import EvaluationConfig, SearchConfig
from models.data.records import check_record
from models.datasets.dataset import Labelled
from models.errors import ConfigError, DataError
from models.evaluation.evaluation import (
    Cases,
    Evaluation,
    answered_records,
    choose_cases,
    evaluate,
    firm_cases,
    fit_detectors,
)
from models.model import Calibration, RecourseModel
from models.search.scoring import score_points
from models.search.search import explain
from models.space.encoding import Encoder, cost
from tests.models.tiny import TINY, Scorecards, Task, random_model

CONFIG = EvaluationConfig(records=25, oracle_records=10, max_queries=4, seed=3)


def alike(encoder: Encoder) -> Scorecards:
    """Scorecards that agree on most records, and not on all."""
    cards = Scorecards(encoder)
    cards.weights = cards.weights[:1] + 0.3 * (cards.weights - cards.weights[:1])
    return cards


def as_labelled_by(ensemble: Scorecards, part: Labelled) -> Labelled:
    """The records on which the scorecards agree, with the class that they agree on."""
    said = ensemble.predict_proba(part.records).argmax(axis=2)
    agreed = (said == said[0]).all(axis=0)
    return Labelled(part.records[agreed], said[0, agreed])


@pytest.fixture(scope="module")
def evaluation(loans_task: Task, tiny_model: RecourseModel) -> Evaluation:
    ensemble = alike(loans_task.encoder)
    config = replace(CONFIG, cost_budget=budget_of(tiny_model))
    return evaluate(tiny_model, ensemble, relabelled(ensemble, loans_task), config, train_seconds=7.5)


def relabelled(ensemble: Scorecards, task: Task) -> Task:
    """The three splits; the last two as the scorecards label them."""
    validation, test = (as_labelled_by(ensemble, split) for split in (task.validation, task.test))
    return replace(task, validation=validation, test=test)


def budget_of(model: RecourseModel) -> float:
    """A cost in the middle of what the dial reaches."""
    return max(point.cost for point in model.frontier) / 2


def test_cases_are_right_by_all_models_and_go_to_another_class(blobs_task: Task) -> None:
    ensemble = alike(blobs_task.encoder)
    records = blobs_task.training.records
    named = ensemble.predict_proba(records).argmax(axis=2)
    assert (named != named[0]).any()
    spoiled = Labelled(records, np.where(np.arange(len(records)) % 2, named[0], (named[0] + 1) % 4))
    cases = choose_cases(ensemble, spoiled, 20, seed=1)
    said = ensemble.predict_proba(cases.records).argmax(axis=2)
    rows = [int(np.flatnonzero((records == record).all(axis=1))[0]) for record in cases.records]
    assert len(cases) == 20 and all(row % 2 for row in rows) and (said == said[0]).all()
    assert (said != cases.target).all() and cases.target.max() < 4
    shift = (cases.target - said[0]) % 4
    assert set(shift.tolist()) == {1, 2, 3}
    again, other = choose_cases(ensemble, spoiled, 20, seed=1), choose_cases(ensemble, spoiled, 20, seed=2)
    assert (again.records == cases.records).all() and (again.target == cases.target).all()
    assert not np.array_equal(other.records, cases.records)


def test_without_a_single_case_the_error_says_so(blobs_task: Task) -> None:
    ensemble = alike(blobs_task.encoder)
    known = as_labelled_by(ensemble, blobs_task.test)
    with pytest.raises(DataError, match=f"None of the {len(known)} test records .* all 3 models"):
        choose_cases(ensemble, Labelled(known.records, (known.labels + 1) % 4), 20, seed=0)


def test_the_surrogates_figures_are_those_of_its_answers(
    loans_task: Task, tiny_model: RecourseModel, evaluation: Evaluation
) -> None:
    ensemble, encoder = alike(loans_task.encoder), loans_task.encoder
    cases = choose_cases(ensemble, as_labelled_by(ensemble, loans_task.test), CONFIG.records, CONFIG.seed)
    price = evaluation.qualities[0].price
    assert price is not None
    search = SearchConfig(cost_weight=price, min_expected_agreement=0.0, seed=CONFIG.seed)
    found = explain(tiny_model, cases.records, cases.target, config=search)
    answers = np.concatenate(
        [
            check_record(encoder.schema, each.counterfactuals[0].record) if each.counterfactuals else own[None]
            for each, own in zip(found, cases.records, strict=True)
        ]
    )
    agreed = ensemble.predict_proba(answers).argmax(axis=2) == cases.target
    quality = evaluation.qualities[0]
    assert quality.method == "densityflow" and quality.records == len(cases) == 25
    assert 0 < quality.validity < 1 and quality.cost > 0
    assert quality.validity == agreed.mean() and quality.unanimity == agreed.all(axis=0).mean()
    assert quality.cost == pytest.approx(cost(encoder.encode(answers), encoder.encode(cases.records)).mean())
    changes = sum(len(each.counterfactuals[0].changes) for each in found if each.counterfactuals)
    assert quality.sparsity == pytest.approx(changes / 25)
    assert (quality.queries_per_explanation, quality.max_queries_used) == (0, 0)
    assert (quality.queries_train, quality.train_seconds) == (tiny_model.queries, 7.5)
    assert quality.explain_ms > 0


def test_verified_search_asks_within_its_limit_and_the_oracle_knows_best(evaluation: Evaluation) -> None:
    _, verified, limit = evaluation.qualities
    assert (verified.method, limit.method) == ("densityflow-verified", "oracle")
    assert 0 < verified.queries_per_explanation <= verified.max_queries_used <= CONFIG.max_queries
    assert limit.records == CONFIG.oracle_records
    assert limit.unanimity >= verified.unanimity
    assert limit.queries_per_explanation > CONFIG.max_queries
    assert (limit.queries_train, limit.train_seconds, limit.price) == (0, 0.0, None)
    for quality in evaluation.qualities:
        assert 0 <= quality.unanimity <= quality.validity <= 1
        assert 0 < quality.isoforest < 1 and quality.lof > 0.5


def test_a_budget_sets_the_dial_where_the_validation_cases_just_meet_it(
    loans_task: Task, tiny_model: RecourseModel
) -> None:
    ensemble = alike(loans_task.encoder)
    splits = relabelled(ensemble, loans_task)
    budget = budget_of(tiny_model)
    config = replace(CONFIG, cost_budget=budget, oracle_records=2, max_queries=1)
    price = evaluate(tiny_model, ensemble, splits, config).qualities[0].price
    assert price is not None
    cases = firm_cases(tiny_model, splits.validation, 3, 500, CONFIG.seed)
    kept, dear = (mean_cost(tiny_model, cases, weight) for weight in (price, price / 1.3))
    assert EvaluationConfig().standard_errors > 0 and kept < budget < dear


def test_setting_the_dial_asks_the_models_nothing(loans_task: Task, tiny_model: RecourseModel) -> None:
    lender, splits = alike(loans_task.encoder), relabelled(alike(loans_task.encoder), loans_task)
    config = replace(CONFIG, records=5, cost_budget=budget_of(tiny_model), oracle_records=1, max_queries=1)
    evaluate(tiny_model, lender, splits, config)
    asked = {record.tobytes() for records in lender.asked for record in records}
    heard = [[record.tobytes() in asked for record in part.records] for part in (splits.test, splits.validation)]
    assert any(heard[0]) and not any(heard[1])


def test_firm_cases_are_those_of_which_the_surrogate_expects_less_than_one_model_to_say_the_target(
    loans_task: Task, tiny_model: RecourseModel
) -> None:
    validation, members = loans_task.validation, 2
    cases = firm_cases(tiny_model, validation, members, 500, seed=1)
    expected = score_points(tiny_model, tiny_model.encoder.encode(validation.records), 1 - validation.labels).agreement
    firm = validation.records[expected < 1 / members]
    assert 20 <= len(firm) < len(validation)
    assert {record.tobytes() for record in cases.records} == {record.tobytes() for record in firm}
    few = firm_cases(tiny_model, validation, members, 3, seed=1)
    assert len(few) == 3 and np.array_equal(few.records, cases.records[:3], equal_nan=True)
    assert len(firm_cases(tiny_model, validation, 1000, 500, seed=1)) == len(validation)


def mean_cost(model: RecourseModel, cases: Cases, cost_weight: float) -> float:
    """What the surrogate's answers cost at this weight."""
    config = SearchConfig(cost_weight=cost_weight, min_expected_agreement=0.0, seed=CONFIG.seed)
    found = explain(model, cases.records, cases.target, None, config)
    answers = answered_records(model.encoder, cases.records, found)
    return float(cost(model.encoder.encode(answers), model.encoder.encode(cases.records)).mean())


def test_a_record_without_an_answer_counts_as_unchanged_and_refused(loans_task: Task) -> None:
    ensemble = alike(loans_task.encoder)
    model = random_model(loans_task.encoder, TINY)
    certain = replace(model, calibration=Calibration(0.0, np.array([0.0, 50.0])))
    known = as_labelled_by(ensemble, loans_task.test)
    test = Labelled(known.records[known.labels == 0], known.labels[known.labels == 0])
    config = replace(CONFIG, oracle_records=1)
    quality = evaluate(certain, ensemble, replace(loans_task, validation=test, test=test), config).qualities[0]
    assert (quality.cost, quality.sparsity, quality.validity, quality.unanimity) == (0, 0, 0, 0)


def test_outliers_score_higher_and_repeated_points_do_no_harm() -> None:
    points = np.repeat(np.random.default_rng(0).normal(size=(40, 2)), 60, axis=0)
    detectors = fit_detectors(points, EvaluationConfig())
    near, far = points[:1], np.array([[9.0, 9.0]])
    assert 0.5 < detectors.lof(near)[0] < 3 < detectors.lof(far)[0] < 100
    assert 0 < detectors.isolation(near)[0] < detectors.isolation(far)[0] < 1


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="records is 0"):
        EvaluationConfig(records=0)
    with pytest.raises(ConfigError, match="oracle_records is 0"):
        EvaluationConfig(oracle_records=0)
    with pytest.raises(ConfigError, match="max_queries is 0"):
        EvaluationConfig(max_queries=0)
    with pytest.raises(ConfigError, match="cost_budget is -1"):
        EvaluationConfig(cost_budget=-1)


def test_without_a_budget_the_search_keeps_its_own_dial(loans_task: Task, tiny_model: RecourseModel) -> None:
    ensemble = alike(loans_task.encoder)
    config = EvaluationConfig(records=2, oracle_records=1, max_queries=1)
    found = evaluate(tiny_model, ensemble, relabelled(ensemble, loans_task), config)
    assert [quality.price for quality in found.qualities] == [SearchConfig().cost_weight, None, None]
    assert found.survival == ({}, {}, {})
