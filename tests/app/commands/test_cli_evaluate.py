"""`recourse evaluate` on a small table, trained in a hurry."""

import json
from pathlib import Path

import pytest

from app.commands.evaluate import parse_seeds
from models.datasets.synthetic import moons
from models.errors import ConfigError
from tests.servers.command_line import Outcome, recourse

HURRY = ("--members", "knn,forest", "--queries", "6", "--effort", "0.01", "--records", "10", "--max-queries", "4")


@pytest.fixture
def run(tmp_path: Path) -> Outcome:
    """Two seeds on 150 moons, as JSON."""
    moons(150).frame.to_csv(tmp_path / "moons.csv", index=False)
    return recourse("evaluate", tmp_path / "moons.csv", "--label", "label", "--seeds", "0,2", *HURRY, "--json")


@pytest.mark.slow
def test_evaluation_measures_the_three_methods_for_each_seed(run: Outcome) -> None:
    assert run.code == 0, run.err
    document = json.loads(run.out)
    runs = document["runs"]
    methods = ["densityflow", "densityflow-verified", "oracle"]
    assert [(entry["seed"], entry["method"]) for entry in runs] == [(seed, name) for seed in (0, 2) for name in methods]
    for entry in runs:
        assert 0 <= entry["unanimity"] <= entry["validity"] <= 1
        assert (entry["records"], entry["dataset"]) == (10, "moons.csv")
    assert all(entry["unanimity"] == 1 for entry in runs if entry["method"] == "oracle")
    verified = [entry for entry in runs if entry["method"] == "densityflow-verified"]
    assert all(0 < entry["queries_per_explanation"] <= entry["max_queries_used"] <= 4 for entry in verified)
    assert all(0 < entry["queries_train"] <= 6 for entry in verified)
    assert document["paper"] is None
    assert "seed 2" in run.err


@pytest.mark.slow
def test_survival_asks_models_that_nobody_asked() -> None:
    outcome = recourse("evaluate", "loans", "--seeds", "0", *HURRY, "--survival", "--json")
    assert outcome.code == 0, outcome.err
    for entry in json.loads(outcome.out)["runs"]:
        groups = {name: entry[name] for name in "abcd" if name in entry}
        assert groups and all(0 <= share <= 1 for share in groups.values())
    assert "survival, other families:" in outcome.err and "models" in outcome.err


@pytest.mark.slow
def test_the_papers_figures_stand_beside_ours() -> None:
    outcome = recourse("evaluate", "moons", "--seeds", "0", *HURRY)
    assert outcome.code == 0, outcome.err
    validity = next(line for line in outcome.out.splitlines() if "validity" in line)
    assert validity.split("│")[-2].strip() == "0.997"
    assert "of the oracle's unanimity" in outcome.out


def test_seeds_are_read_as_a_range_or_a_list() -> None:
    assert parse_seeds("0-4") == (0, 1, 2, 3, 4)
    assert parse_seeds("7") == (7,)
    assert parse_seeds("0, 3-4") == (0, 3, 4)
    for text in ("", "a", "3-1", "1,1", "-1", "0-", "1.5", "0-99999999999", "4294967296", "0-1000"):
        with pytest.raises(ConfigError, match="--seeds"):
            parse_seeds(text)


def test_a_bad_request_is_refused() -> None:
    assert "'x'" in recourse("evaluate", "moons", "--seeds", "x").complaint
    assert "'nowhere'" in recourse("evaluate", "nowhere").complaint
    assert "'tree'" in recourse("evaluate", "moons", "--members", "tree").complaint


def test_the_schema_file_is_regarded(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"features": {"height": {"immutable": true}}}')
    assert "name 'height', which is no feature" in recourse("evaluate", "moons", "--schema", schema).complaint
    assert "no readable schema file" in recourse("evaluate", "moons", "--schema", tmp_path / "none").complaint


def test_numbers_with_a_stray_text_are_refused(tmp_path: Path) -> None:
    frame = moons(150).frame
    frame["x1"] = [*map(str, frame["x1"][:149]), "12 EUR"]
    frame.to_csv(tmp_path / "moons.csv", index=False)
    assert "'12 EUR' in row 150" in recourse("evaluate", tmp_path / "moons.csv", "--label", "label").complaint
