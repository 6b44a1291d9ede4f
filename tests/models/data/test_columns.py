"""Columns that no applicant could change, copies of the label, and codes for missing values."""

import numpy as np
import pandas as pd
import pytest

from models.data.columns import check_columns, inspect_columns
from models.data.infer import infer_schema
from models.errors import DataError

ROWS = 400
RANDOM = np.random.default_rng(0)
LABEL = np.where(RANDOM.random(ROWS) < 0.3, "yes", "no")
INCOME = RANDOM.permutation(np.arange(20_000, 20_000 + 250 * ROWS, 250))


def frame_with(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"income": INCOME, **columns, "label": LABEL})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("x", np.arange(ROWS)),
        ("row", RANDOM.permutation(np.arange(1000, 1000 + ROWS))),
        ("customer_id", RANDOM.choice(10**9, ROWS, replace=False)),
        ("kundennummer", RANDOM.choice(10**9, ROWS, replace=False)),
        ("LoanNr", RANDOM.choice(10**9, ROWS, replace=False).astype(float)),
        ("reference", [f"A-{row}-Z" for row in range(ROWS)]),
        ("Vertragsnr", RANDOM.choice(10**9, ROWS, replace=False)),
        ("account_no", np.append(RANDOM.choice(10**9, ROWS - 20, replace=False), np.arange(20) // 4)),
    ],
)
def test_what_names_the_rows_is_left_out(name: str, values: object) -> None:
    found = inspect_columns(frame_with(**{name: values}), "label", {})
    assert list(found.left_out) == [name]
    assert f"Column '{name}' names the rows" in found.left_out[name]
    assert not inspect_columns(frame_with(**{name: values}), "label", {name: ["immutable"]}).left_out, "overrides win"


@pytest.mark.parametrize(
    "values",
    [
        np.where(LABEL == "yes", 1, 0),
        np.where(LABEL == "yes", "granted", "declined"),
        np.where(LABEL == "yes", 17.0, np.nan),
        np.where(LABEL == "yes", RANDOM.normal(5.0, 1.0, ROWS), np.nan),
        np.where((LABEL == "yes") ^ (np.arange(ROWS) == 5), "A", "B"),
    ],
)
def test_a_copy_of_the_label_is_left_out(values: object) -> None:
    """40 of 40 answers told the applicant to change `approved_flag`."""
    found = inspect_columns(frame_with(approved_flag=values), "label", {})
    assert list(found.left_out) == ["approved_flag"] and "copies the label in" in found.left_out["approved_flag"]
    assert not inspect_columns(frame_with(approved_flag=values), None, {}).left_out


def test_a_number_that_tells_the_label_alone_stays_and_is_told() -> None:
    """It may be the lender's own rule, or known only after the decision."""
    score = np.where(LABEL == "yes", 600 + INCOME / 1e6, 599 - INCOME / 1e6)
    found = inspect_columns(frame_with(score=score), "label", {})
    assert not found.left_out and "'score' alone tells the label in 100.0% of the rows" in found.notices[0]
    assert not inspect_columns(frame_with(score=score), "label", {"score": ["direction"]}).notices
    blurred = score + RANDOM.normal(0.0, 1.0, ROWS)
    assert not inspect_columns(frame_with(score=blurred), "label", {}).notices
    for name in ("income", "constant"):
        assert not inspect_columns(frame_with(constant=7.0)[[name, "label"]], "label", {}).notices


def test_what_only_goes_with_the_label_stays() -> None:
    strong = np.where(RANDOM.random(ROWS) < 0.9, LABEL, "no")
    rare = np.where(np.arange(ROWS) < 3, "x", "y")
    found = inspect_columns(frame_with(strong=strong, rare=rare, month=np.arange(ROWS) % 12), "label", {})
    assert not found.sentences
    assert not inspect_columns(pd.DataFrame({"x": range(30), "label": ["a", "b"] * 15}), "label", {}).sentences


def test_codes_for_missing_values_are_told_until_somebody_says_that_they_are_numbers() -> None:
    savings = np.where(np.arange(ROWS) % 10 == 0, -999, INCOME)
    found = inspect_columns(frame_with(savings=savings), "label", {})
    assert "'savings' holds -999 in 40 rows and no other number below 0" in found.codes["savings"]
    assert '{"features": {"savings": {"lower": -999}}}' in found.codes["savings"]
    assert not inspect_columns(frame_with(savings=savings), "label", {"savings": {"lower": -999}}).codes
    assert inspect_columns(frame_with(savings=savings), "label", {"savings": {"direction": "up"}}).codes
    heloc = np.where(np.arange(ROWS) % 10 < 3, -7 - np.arange(ROWS) % 10, np.arange(ROWS) % 90)
    assert "-9, -8, -7" in inspect_columns(frame_with(x=heloc), "label", {}).codes["x"]
    change = np.where(np.arange(ROWS) % 10 == 0, -999, np.arange(ROWS) - 200)
    seen = inspect_columns(frame_with(change=change), "label", {})
    assert (
        not seen.codes and "'change' holds -999 in 40 rows, far below its other values (from -199)" in seen.notices[0]
    )
    assert not inspect_columns(frame_with(change=np.where(change == -999, -300, change)), "label", {}).notices
    large = np.where(np.arange(ROWS) % 50 == 0, 99_999, np.arange(ROWS) % 97)
    (notice,) = inspect_columns(frame_with(gain=large), "label", {}).notices
    assert "'gain' holds 99999 in 8 rows, far above its other values (up to 96)" in notice


def test_all_problems_of_a_table_are_told_at_once() -> None:
    frame = frame_with(
        empty=[None] * ROWS,
        same=7,
        when=pd.date_range("2026-01-01", periods=ROWS).strftime("%Y-%m-%d"),
        amount=[f"{row},000" for row in range(1, ROWS)] + ["?"],
    )
    frame.loc[3, "label"] = None
    with pytest.raises(DataError) as told:
        infer_schema(frame.drop(columns=["when", "amount"]), "label")
    for part in ("'label' is missing in 1 rows", "'empty' holds no value", "'same' holds one value only"):
        assert part in str(told.value)
    with pytest.raises(DataError) as told:
        check_columns(frame, {"label"}, lambda name: "say so", lambda rest: infer_schema(rest, "label"))
    for part in (
        "'when' holds dates",
        "'amount' holds numbers, but",
        "'label' is missing",
        "'empty' holds",
        "'same' holds",
    ):
        assert part in str(told.value)
