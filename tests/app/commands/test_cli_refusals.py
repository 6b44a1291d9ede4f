"""What `recourse train` refuses: one sentence that names the column or the value, exit code 2, nothing left behind."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.servers.command_line import Outcome, recourse

ROWS = 60


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Outcome]:
    """`recourse train FILE --label y --out model OPTIONS` on the given text; checks that nothing is left behind."""

    def run(table: str, *options: object, label: str = "y") -> Outcome:
        file = tmp_path / "table.csv"
        file.write_text(table)
        outcome = recourse("train", file, "--label", label, "--out", tmp_path / "model", *options)
        assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]
        return outcome

    return run


def table(**changes: object) -> pd.DataFrame:
    """A sound table, and what a test changes of it."""
    random = np.random.default_rng(0)
    kinds = np.array(["a", "b", "c"])[np.arange(ROWS) % 3]
    sound = {"size": random.normal(size=ROWS).round(3), "kind": kinds, "y": np.where(np.arange(ROWS) % 2, "yes", "no")}
    return pd.DataFrame({**sound, **changes})


def replaced(name: str, row: int, value: object) -> pd.DataFrame:
    """The sound table with one other value."""
    values = table()[name].tolist()
    values[row] = value
    return table(**{name: values})


BAD_TABLES = {
    "constant column": (table(kind="a"), ["'kind'", "'a'"]),
    "one class only": (table(y="yes"), ["'y'", "'yes'"]),
    "NaN label": (replaced("y", 6, None), ["'y'", "row 7"]),
    "infinite number": (replaced("size", 4, np.inf), ["'size'", "row 5"]),
    "no rows": (table().head(0), ["no rows"]),
    "1-row class": (replaced("y", 3, "maybe"), ["'maybe'", "1 of the 5"]),
    "only the label": (table()[["y"]], ["'y'"]),
    "codes for missing values": (
        table(size=[-999, *range(ROWS - 1)]),
        ["'size' holds -999 in 1 rows", '"lower": -999'],
    ),
    "two at once": (table(kind="a", size=1), ["'kind'", "'size'"]),
    "dates": (table(kind=pd.date_range("2020", periods=ROWS)), ["'kind'"]),
}


AMOUNTS = [f"{1 + row // 12},{row % 12:03}" for row in range(ROWS)]
UNREAD = {
    "one text among numbers": ([*range(40), "unknown", *range(19)], ["'kind'", "'unknown' in row 41"]),
    "a space for missing": ([*range(40), " ", *range(19)], ["' ' in row 41"]),
    "thousands": (AMOUNTS, ["'1,000' in row 1", "plain number"]),
    "money": ([f"${row}" for row in range(1000, 1000 + ROWS)], ["'$1000' in row 1"]),
    "percents": ([f"{row % 20}%" for row in range(ROWS)], ["'0%' in row 1"]),
    "dates": ([f"2024-01-{1 + row % 28:02}" for row in range(ROWS)], ["'kind' holds dates"]),
    "European dates": ([f"{1 + row % 28}.1.2024" for row in range(ROWS)], ["'kind' holds dates"]),
}


@pytest.mark.parametrize("case", UNREAD)
def test_numbers_and_dates_are_not_taken_for_categories_unseen(case: str, train: Callable[..., Outcome]) -> None:
    values, named = UNREAD[case]
    complaint = train(table(kind=values).to_csv(index=False)).complaint
    assert all(part in complaint for part in [*named, '{"features": {"kind": {"kind": "categorical"}}}']), complaint


def test_a_column_that_is_said_to_be_a_category_is_one(
    tmp_path_factory: pytest.TempPathFactory, train: Callable[..., Outcome]
) -> None:
    file = tmp_path_factory.mktemp("schema") / "schema.json"
    file.write_text('{"features": {"kind": {"kind": "categorical"}}}')
    text = table(kind=AMOUNTS[:30] * 2).to_csv(index=False)
    assert "top_features is 9" in train(text, "--schema", file, "--top-features", 9).complaint


def test_a_few_numbers_may_be_categories(train: Callable[..., Outcome]) -> None:
    text = table(kind=["0", "1", "2", "3+"] * 15).to_csv(index=False)
    assert "top_features is 9" in train(text, "--top-features", 9).complaint


def test_codes_are_categories_even_beside_a_word(train: Callable[..., Outcome]) -> None:
    codes = [f"{n:04}" for n in range(20)]
    text = table(kind=[*codes * 2, *codes[:19], "HQ"]).to_csv(index=False)
    assert "top_features is 9" in train(text, "--top-features", 9).complaint


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused(case: str, train: Callable[..., Outcome]) -> None:
    frame, named = BAD_TABLES[case]
    complaint = train(frame.to_csv(index=False)).complaint
    assert all(part in complaint for part in named), complaint


def test_two_columns_of_one_name_are_refused(train: Callable[..., Outcome]) -> None:
    text = table().to_csv(index=False).replace("size,kind,y", "size,size,y")
    assert "'size' twice" in train(text).complaint


def test_an_empty_file_is_refused(train: Callable[..., Outcome]) -> None:
    assert "is empty" in train("").complaint


def test_ragged_rows_are_refused(train: Callable[..., Outcome]) -> None:
    assert "has 5 values, but the header has 3" in train("size,kind,y\n1,2,3,4,5\n").complaint
    assert "Line 3 of" in train("size,kind,y\n1,2,3\n1,2,3,4\n").complaint


def test_a_row_that_was_cut_off_is_refused(train: Callable[..., Outcome]) -> None:
    text = table().to_csv(index=False)
    assert "Line 31 of" in train("\n".join([*text.splitlines()[:30], "0.5,a", *text.splitlines()[31:]])).complaint
    assert "has 1 values, but the header has 3" in train(text + "0.1").complaint


def test_blank_lines_are_no_rows(train: Callable[..., Outcome]) -> None:
    text = "\n" + table().to_csv(index=False).replace("\n", "\n\n  \n")
    assert "'outcome'" in train(text, label="outcome").complaint


HEADERS = {
    ",kind,y": "Column 1 of",
    "size,  ,y": "Column 2 of",
    "size;kind;y": "separate the columns with commas",
    "size\tkind\ty": "separate the columns with commas",
    "size,kind , y": "'kind '",
}


@pytest.mark.parametrize("header", HEADERS)
def test_a_bad_header_is_refused(header: str, train: Callable[..., Outcome]) -> None:
    text = table().to_csv(index=False).replace("size,kind,y", header)
    assert HEADERS[header] in train(text).complaint


def test_an_unknown_label_is_refused(train: Callable[..., Outcome]) -> None:
    complaint = train(table().to_csv(index=False), label="outcome").complaint
    assert "'outcome'" in complaint
    assert "size, kind, y" in complaint


OPTIONS = {
    "--members knn,oracle": "'oracle'",
    "--seed 4294967296": "'--seed'",
    "--queries 99999999999999999999": "'--queries'",
    "--effort 0": "0.0",
    "--device tpu": "'tpu'",
    "--device cuda:7": "'cuda:7'",
    "--schema missing.json": "'missing.json'",
    "--top-features 9": "top_features is 9",
}


@pytest.mark.parametrize("options", OPTIONS)
def test_a_bad_option_is_refused(options: str, train: Callable[..., Outcome]) -> None:
    outcome = train(table().to_csv(index=False), *options.split())
    assert OPTIONS[options] in outcome.err
    assert outcome.code == 2


SCHEMAS = {
    "not json": "is not JSON",
    '["size"]': "an object",
    '{"features": {"colour": {}}}': "'colour'",
    '{"features": {"size": {"protected": true}, "size": {"step": 0.1}}}': "'size' twice",
    "[" * 9999: "nested too deep",
    '\ufeff{"features": {"colour": {}}}': "'colour'",
    '{"features": {"size": {"lower": 3}}}': "'size'",
    '{"features": {"size": {"colour": "red"}}}': "'colour'",
}


@pytest.mark.parametrize("text", SCHEMAS)
def test_a_bad_schema_file_is_refused(
    text: str, tmp_path_factory: pytest.TempPathFactory, train: Callable[..., Outcome]
) -> None:
    file = tmp_path_factory.mktemp("schema") / "schema.json"
    file.write_text(text)
    assert SCHEMAS[text] in train(table().to_csv(index=False), "--schema", file).complaint


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    out = ["--out", tmp_path / "model"]
    assert "'no.csv'" in recourse("train", "no.csv", "--label", "y", *out).complaint
    assert "'lans' is neither" in recourse("train", "lans", *out).complaint
    assert not any(tmp_path.iterdir())


def test_a_file_needs_a_label(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "table.csv", index=False)
    outcome = recourse("train", tmp_path / "table.csv", "--out", tmp_path / "model")
    assert "--label" in outcome.complaint


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    for name in ("table.xlsx", "table.parquet", "table.csv", "table.csv.gz"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00binary")
        outcome = recourse("train", tmp_path / name, "--label", "y", "--out", tmp_path / "model")
        assert name in outcome.complaint


def test_an_existing_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    outcome = recourse("train", "no.csv", "--out", tmp_path)
    assert f"'{tmp_path}' exists already" in outcome.complaint
    assert not any(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = recourse("train", "no.csv", "--out", tmp_path / "file" / "model")
    assert f"'{tmp_path / 'file'}' is not a folder" in outcome.complaint
