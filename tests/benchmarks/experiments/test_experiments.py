"""Every experiment runs on a small bench, measures what it promises and draws it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.experiments import sex, spearman, surface, sweeps, table2
from benchmarks.experiments.bench import Bench, Settings, quick_settings
from benchmarks.experiments.command import CATALOGUE, find_experiment
from benchmarks.experiments.experiment import Row
from benchmarks.experiments.methods import LEAN, METHODS, answers_of, config_of, with_queries
from benchmarks.experiments.pictures import COLOURS
from benchmarks.store import Places
from models.config import fast
from models.datasets.dataset import Dataset, split_dataset
from models.ensemble.votes import votes
from tests.benchmarks.experiments.conftest import SETTINGS

RUNS = [
    ("table2", "densityflow"),
    ("table2", "densityflow-verified"),
    ("table2", "argument"),
    ("trajectories", "densityflow"),
    ("trajectories", "argument"),
    ("agreement", "flow"),
    ("disagreement", "density"),
    ("surface", surface.variant_name(1.25, 0.4)),
    ("spearman", "knn"),
    ("ablation", "without distillation"),
    ("proxies", "lof"),
    ("distillation", "60"),
    ("penalty", "path"),
    ("noise_ratio", "0.5"),
    ("noise_range", "2.0"),
    ("noise_factor", "0.8"),
    ("query_cost", "densityflow"),
]


def row_of(bench: Bench, name: str, variant: str) -> Row:
    measured = find_experiment(name).run(bench, variant)
    return Row(bench.dataset, bench.seed, variant, measured.values, measured.curves, measured.note)


@pytest.mark.parametrize(("name", "variant"), RUNS)
def test_a_run_has_every_measure_and_a_picture(bench: Bench, tmp_path: Path, name: str, variant: str) -> None:
    experiment = find_experiment(name)
    row = row_of(bench, name, variant)
    assert {measure.name for measure in experiment.measures} - {"fidelity", "proven"} <= set(row.values)
    assert np.isfinite(list(row.values.values())).all()
    experiment.draw([row], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_every_experiment_of_the_issue_is_there() -> None:
    assert len(CATALOGUE) == 18


def test_the_methods_answer_the_same_cases_and_their_queries_are_counted(bench: Bench) -> None:
    ours, verified, argument = (answers_of(bench, name) for name in ("densityflow", "densityflow-verified", "argument"))
    assert (ours.cases.records == argument.cases.records).all()
    planned = bench.config.queries
    assert ours.queries.distinct <= planned
    assert ours.queries.distinct < verified.queries.distinct <= planned + 10 * len(bench.cases)
    assert argument.queries.distinct >= len(np.unique(bench.study.training.records, axis=0))
    limit = answers_of(bench, "oracle")
    assert votes(bench.ensemble.predict_proba(limit.records), limit.cases.target).all()
    product = answers_of(bench, "product_mip")
    assert len(product.cases) == SETTINGS.slow_records
    assert product.extra["fidelity"] > 0.8 and 0 <= product.extra["proven"] <= 1 and not argument.extra


def test_variants_are_other_trainings_and_share_those_that_are_the_same(bench: Bench) -> None:
    config = fast()
    assert sweeps.without_part(config, "full") == sweeps.with_proxy(config, "nce") == config
    assert sweeps.without_part(config, "without density") == sweeps.with_proxy(config, "none") != config
    assert with_queries(config, 480) == config
    assert with_queries(config, 0) == sweeps.without_part(config, "without distillation")
    assert [with_queries(config, int(budget)).queries for budget in sweeps.BUDGETS] == [
        int(budget) for budget in sweeps.BUDGETS
    ]
    assert config_of(bench, "densityflow").queries == bench.config.queries
    assert config_of(bench, LEAN) == with_queries(bench.varied_config, 240)


def test_a_quick_run_and_varied_trainings_have_the_same_queries_and_fewer_steps(tmp_path: Path) -> None:
    full, quick = (Bench("blood", 0, each, Places(None, tmp_path)) for each in (Settings(), quick_settings()))
    assert full.config == fast()
    for config in (full.varied_config, quick.config, quick.varied_config):
        assert config.queries == fast().queries and config.loss == fast().loss
        assert config.surrogate.steps <= fast().surrogate.steps // 5


@pytest.mark.parametrize("name", list(spearman.ESTIMATORS))
def test_every_estimator_is_higher_in_the_middle_of_the_data(name: str) -> None:
    random = np.random.default_rng(0)
    training = random.normal(size=(400, 3))
    inside, outside = spearman.ESTIMATORS[name](training, np.array([[0.0, 0.0, 0.0], [6.0, -6.0, 6.0]]), 0)
    assert inside > outside


def test_as_many_women_as_men_are_asked_and_those_who_stay_are_counted(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    skill, women = random.normal(size=900), random.random(900) < 0.3
    frame = pd.DataFrame({"skill": skill.round(2), "sex": np.where(women, "Female", "Male")})
    frame["income"] = np.where(skill > 0.5, ">50K", "<=50K")
    bench = Bench("people", 0, SETTINGS, Places(None, tmp_path))
    bench.__dict__["study"] = split_dataset(Dataset("people", frame, "income"), 0)
    cases = sex.balanced(bench)
    assert len(cases) == 12 and set(cases.target.tolist()) == {1}
    assert sex.run(bench, "queries").values["female"] == 0.5
    after = sex.run(bench, "counterfactuals").values
    assert 0.0 <= after["female"] <= 1.0 and after["records"] <= 12


def test_every_method_has_its_own_mark_and_colour() -> None:
    assert len(set(table2.MARKERS)) >= len(METHODS) and len(set(COLOURS)) >= len(METHODS)
