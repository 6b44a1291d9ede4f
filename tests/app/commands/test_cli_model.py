"""`recourse train` and `recourse explain` on a small table of loans, trained once and in a hurry."""

import json
import signal
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app.commands.console import Bars
from models.data.frames import to_records
from models.datasets.loans import OVERRIDES, loans
from models.ensemble.local import EnsembleProgress
from models.storage.artifact import load_ensemble_of, load_model
from models.storage.sealed import check_seal
from tests.servers.command_line import Outcome, recourse

HURRY = ("--members", "knn,forest,xgboost", "--queries", "12", "--effort", "0.02")


def write_loans(folder: Path) -> list[object]:
    """A table of 500 loans and its schema -> the arguments of a training on them"""
    loans(500, seed=0).frame.to_csv(folder / "loans.csv", index=False)
    (folder / "schema.json").write_text(json.dumps(OVERRIDES))
    return ["train", folder / "loans.csv", "--label", "decision", "--schema", folder / "schema.json", *HURRY]


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What the shell saw of the training in `folder`."""
    folder = tmp_path_factory.mktemp("train")
    return recourse(*write_loans(folder), "--out", folder / "deep" / "model")


@pytest.fixture(scope="module")
def model(training: Outcome) -> Path:
    """The folder of the trained model, as the command's last line names it."""
    assert training.code == 0, training.err
    words = training.out.splitlines()[-1].split()
    assert words[:3] + words[4:] == ["Next:", "recourse", "explain", "RECORDS.csv", "--target", "approved"]
    return Path(words[3])


@pytest.fixture(scope="module")
def refused(model: Path) -> pd.DataFrame:
    """Six loans that every black box of the model refuses, within the bounds of its table."""
    frame, ensemble = loans(400, seed=1).frame, load_ensemble_of(model)
    schema = ensemble.encoder.schema
    for feature in schema.features:
        if not feature.is_categorical:
            column = frame[feature.name]
            frame = frame[column.isna() | column.between(feature.lower, feature.upper)]
    said = ensemble.predict_proba(to_records(schema, frame)).argmax(axis=2)
    rows = np.flatnonzero((said == schema.classes.index("refused")).all(axis=0))
    return frame.iloc[rows[:6]].reset_index(drop=True)


@pytest.fixture
def explain(model: Path, tmp_path: Path) -> Callable[..., Outcome]:
    """`recourse explain MODEL RECORDS --target approved OPTIONS`"""

    def run(records: pd.DataFrame, *options: object, target: str = "approved") -> Outcome:
        records.to_csv(tmp_path / "records.csv", index=False)
        return recourse("explain", model, tmp_path / "records.csv", "--target", target, *options)

    return run


def test_training_says_what_it_made(training: Outcome, model: Path) -> None:
    for text in ("approved, refused", "300 training, 100 validation", "12 of at most 12", "knn", "xgboost"):
        assert text in training.out
    assert check_seal(model)[:12] in training.out
    for phase in ("ensemble", "surrogate", "generator", "distill", "frontier"):
        assert phase in training.err
    assert "loss" not in training.out, "progress goes to stderr"
    assert load_model(model).queries == 12
    assert load_model(model).encoder.schema.features[0].protected
    assert "age, sex, dependents (protected)" in training.out


def test_explanations_as_json(explain: Callable[..., Outcome], refused: pd.DataFrame, model: Path) -> None:
    outcome = explain(refused, "--json", "--max-queries", "8", "--immutable", "housing,loan_amount")
    document = json.loads(outcome.out)
    assert (outcome.code, outcome.err) == (0, "")
    keys = ["model", "target", "seed", "min_agreement", "max_queries", "queries", "explanations"]
    assert list(document) == keys
    assert document["model"] == check_seal(model)
    answers = document["explanations"]
    assert [answer["row"] for answer in answers] == [1, 2, 3, 4, 5, 6]
    assert 0 < document["queries"] <= sum(answer["queries"] for answer in answers) <= 6 * 8
    assert {"robust"} <= {answer["status"] for answer in answers} <= {"robust", "valid", "infeasible"}
    rows = refused.astype(object).where(refused.notna(), None).to_dict("records")
    for answer, row in zip(answers, rows, strict=True):
        for found in answer["counterfactuals"]:
            _check_counterfactual(found, row, robust=answer["status"] == "robust")


def _check_counterfactual(found: dict[str, object], row: Mapping[Hashable, object], robust: bool) -> None:
    record, changes, votes = found["record"], found["changes"], found["votes"]
    assert isinstance(record, dict)
    assert isinstance(changes, list)
    assert isinstance(votes, list)
    for change in changes:
        assert change["to"] == record[change["feature"]] != change["from"]
        assert change["from"] == row[change["feature"]]
    frozen = {"sex", "dependents", "purpose", "housing", "loan_amount"}
    assert not frozen & {change["feature"] for change in changes}
    assert [vote["model"] for vote in votes] == ["knn", "forest", "xgboost"]
    if robust:
        assert all(vote["accepts"] for vote in votes)
        assert found["agreement"] == 1.0


def test_explanations_for_a_person(explain: Callable[..., Outcome], refused: pd.DataFrame) -> None:
    outcome = explain(refused, "--max-queries", "8")
    assert (outcome.code, outcome.err) == (0, "")
    assert "3 of 3 models accept." in outcome.out
    assert "accept: knn, forest, xgboost; refuse: nobody" in outcome.out
    assert "change to" in outcome.out
    assert "6 records:" in outcome.out
    assert "sure that" not in outcome.out, "nothing is promised of models that were not asked"


def test_without_queries_nothing_is_called_verified(explain: Callable[..., Outcome], refused: pd.DataFrame) -> None:
    outcome = explain(refused, "--max-queries", "0", "--robustness", "0.1")
    assert "Not verified; the surrogate expects" in outcome.out
    assert "models accept" not in outcome.out
    assert "; 0 queries." in outcome.out


def test_a_bad_record_leaves_the_others_their_answers(explain: Callable[..., Outcome], refused: pd.DataFrame) -> None:
    records = refused.astype(object)
    records.loc[1, "housing"] = "castle"
    records.loc[2, "income"] = 10**9
    records.loc[3, "income"] = "plenty"
    records.loc[4, "savings"] = "inf"
    records.loc[3, ["debt_ratio", "late_payments"]] = None
    outcome = explain(records, "--json")
    answers = json.loads(outcome.out)["explanations"]
    assert outcome.code == 2
    errors = [answer["error"] for answer in answers]
    assert errors[0] is errors[5] is None
    assert answers[0]["counterfactuals"]
    named = (
        ("'housing'", "'castle'"),
        ("'income'", "1000000000"),
        ("'income'", "'plenty'", "'late_payments', 'debt_ratio' have no value"),
        ("'savings'", "infinite"),
    )
    for error, parts in zip(errors[1:5], named, strict=True):
        assert all(part in error for part in parts), error
    clean = json.loads(explain(refused, "--json").out)["explanations"]
    assert answers[5] == clean[5], "an answer does not depend on its neighbours"
    table = explain(records).out
    assert "Row 2: error: Column 'housing' holds the unknown category 'castle'" in table


def test_a_constraint_that_one_record_cannot_meet_is_that_records_error(
    explain: Callable[..., Outcome], refused: pd.DataFrame
) -> None:
    least = int(refused["age"].max())
    outcome = explain(refused, "--json", "--range", f"age=:{least - 1}")
    answers = json.loads(outcome.out)["explanations"]
    wrong = [answer["row"] - 1 for answer in answers if answer["status"] == "error"]
    assert wrong == refused.index[refused["age"] == least].tolist()
    assert answers[wrong[0]]["error"].startswith(f"'age' is {least} and is protected, so it must not change")
    assert outcome.code == 2


@pytest.mark.parametrize("queries", [0, 8])
def test_where_everything_is_frozen_what_is_frozen_is_named(
    explain: Callable[..., Outcome], refused: pd.DataFrame, model: Path, queries: int
) -> None:
    free = [each.name for each in load_model(model).encoder.schema.features if not each.protected]
    outcome = explain(refused, "--immutable", ",".join(free), "--max-queries", queries)
    told = " ".join(outcome.out.split())
    assert outcome.code == 0 and "6 records: 6 infeasible" in told and "change to" not in told
    assert told.count("Nothing may change, because education, employment, employment_years, income,") == 6


REQUESTS = {
    "--range income=9:5": "inverted",
    "--range income=plenty:": "'plenty'",
    "--range income=5": "'income' is '5'",
    "--range colour=1:2": "'colour'",
    "--range housing=castle": "'castle'",
    "--range income": "'income'",
    "--range age=20:30 --range age=20:40": "'age' twice",
    "--range loan_amount=1:400": "loan_amount",
    "--direction age=sideways": "'sideways'",
    "--direction housing=up": "'housing'",
    "--immutable colour": "'colour'",
    "--price 0": "price is 0.0",
    "--min-agreement 1.5": "min_agreement is 1.5",
    "--device tpu": "'tpu'",
}


@pytest.mark.parametrize("options", REQUESTS)
def test_a_bad_request_is_refused(options: str, explain: Callable[..., Outcome], refused: pd.DataFrame) -> None:
    assert REQUESTS[options] in explain(refused, *options.split()).complaint


def test_more_queries_than_can_be_counted_are_refused(explain: Callable[..., Outcome], refused: pd.DataFrame) -> None:
    outcome = explain(refused, "--max-queries", 10**23)
    assert (outcome.code, outcome.out) == (2, "")
    assert "'--max-queries'" in outcome.err


def test_bad_records_files_are_refused(explain: Callable[..., Outcome], refused: pd.DataFrame, model: Path) -> None:
    assert "'granted'" in explain(refused, target="granted").complaint
    assert "'income'" in explain(refused.drop(columns=["income"])).complaint
    assert "'colour'" in explain(refused.assign(colour="red")).complaint
    assert "but no rows" in explain(refused.head(0)).complaint
    assert "'no.csv'" in recourse("explain", model, "no.csv", "--target", "approved").complaint
    assert "'nowhere'" in recourse("explain", "nowhere", "no.csv", "--target", "approved").complaint


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(bars: Bars, progress: EnsembleProgress) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Bars, "ensemble", interrupt)
    arguments = write_loans(tmp_path)
    before = sorted(tmp_path.iterdir())
    # A shell that starts its jobs in the background has them ignore the key.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        outcome = recourse(*arguments, "--out", tmp_path / "model")
    finally:
        signal.signal(signal.SIGINT, inherited)
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err.splitlines()[-1] == f"Stopped; nothing was written to '{tmp_path / 'model'}'."
    assert sorted(tmp_path.iterdir()) == before
