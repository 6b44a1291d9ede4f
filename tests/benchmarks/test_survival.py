"""The yardstick: what each method's row says, and a whole run in small."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.store import Places
from benchmarks.survival.__main__ import main
from benchmarks.survival.families import TabM
from benchmarks.survival.figures import measure
from benchmarks.survival.material import Material, Settings
from benchmarks.survival.methods import METHODS, WithMargin
from models.arrays import Records
from tests.models.tiny import TINY

KEYS = (
    "dataset seed method rules records answered cost asked a b c d e all_a all_b all_c all_d level promised "
    "coverage_abc coverage_d lof typical changes queries queries_train ms"
)
SMALL = Settings(records=10, ensembles=1, members=("knn", "forest"), one="forest", base=TINY)


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TabM, "steps", 30)
        yield


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return Material("loans", 0, "none", SMALL, Places(None, tmp_path_factory.mktemp("cache")))


@pytest.mark.slow
def test_refused_records_are_refused_by_all_and_real_approved_ones_accepted(material: Material) -> None:
    for cases, accepted in ((material.refused, False), (material.approved, True)):
        said = material.asked.predict_proba(cases.records).argmax(axis=2) == material.target
        assert len(cases) == 10 and (said == accepted).all()
    row, each = measure(material, "real-approved")
    assert (row["asked"], row["answered"], row["cost"], row["promised"]) == (1.0, 1.0, None, None)
    assert row["a"] == each["a"].mean() > 0.5


@pytest.mark.slow
def test_a_row_has_the_promised_keys_and_counts_what_was_asked(material: Material) -> None:
    row, _ = measure(material, "verified-10")
    assert " ".join(row) == KEYS and 0 <= row["e"] <= 1
    assert 0 < row["queries"] <= 10 and row["queries_train"] == TINY.queries
    assert 0 <= row["coverage_abc"] <= 1 and row["level"] == 0.9
    assert row["asked"] >= measure(material, "surrogate")[0]["asked"] - 0.3
    one, _ = measure(material, "surrogate-one")
    assert one["queries"] == 0 and one["asked"] in {share / 10 for share in range(11)}


@pytest.mark.slow
def test_the_nearest_agreed_record_is_accepted_by_all_and_dearer_than_nothing(material: Material) -> None:
    row, _ = measure(material, "nearest-agreed")
    assert (row["asked"], row["answered"]) == (1.0, 1.0) and row["cost"] > 0
    assert row["queries_train"] == len(material.free.training)


@pytest.mark.slow
def test_a_record_without_an_answer_survives_nowhere(material: Material, monkeypatch: pytest.MonkeyPatch) -> None:
    found = METHODS["nearest-agreed"](material)
    half = replace(found, answered=np.arange(10) < 5)
    monkeypatch.setitem(METHODS, "half", lambda material: half)
    row, each = measure(material, "half")
    assert row["answered"] == 0.5 and row["asked"] == 0.5 and (each["b"][5:] == 0).all()


def test_the_margin_rule_accepts_from_six_tenths_on() -> None:
    class Lender:
        member_names, classes = ("one",), ("no", "yes")

        def predict_proba(self, records: Records) -> Records:
            return np.stack([1 - records[:, 0], records[:, 0]], axis=1)[None]

    said = WithMargin(Lender(), 1).predict_proba(np.array([[0.55], [0.59], [0.61], [1.0]]))
    assert said.argmax(axis=2).tolist() == [[0, 0, 1, 1]]


@pytest.mark.slow
def test_a_whole_run_in_small_goes_on_where_it_was(tmp_path: Path) -> None:
    places = [
        "--results",
        str(tmp_path),
        "--cache",
        str(tmp_path / "cache"),
        "--members",
        "knn",
        "forest",
        "--one",
        "forest",
    ]
    small = [*places, "--datasets", "loans", "--seeds", "0", "--records", "6", "--ensembles", "1"]
    assert main([*small, "--methods", "real-approved", "verified-10"], TINY) == 0
    assert main([*small, "--methods", "verified-10", "surrogate", "nearest-agreed"], TINY) == 0
    rows = json.loads((tmp_path / "survival.json").read_text())
    assert [row["method"] for row in rows] == ["real-approved", "verified-10", "surrogate", "nearest-agreed"]
    page = (tmp_path / "SURVIVAL.md").read_text()
    assert "### loans" in page and "| verified-10 | 1 | 1.000 |" in page and "## Models that count" in page
    assert (tmp_path / "survival.png").read_bytes().startswith(b"\x89PNG")
