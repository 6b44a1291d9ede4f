"""Tables from files, as the columns that a person means."""

from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.reader import read_table
from models.data.infer import infer_step
from models.errors import DataError


def test_decimals_of_parquet_are_numbers(tmp_path: Path) -> None:
    prices = pa.array([Decimal("0.10"), None, Decimal("12.30")], pa.decimal128(10, 2))
    pq.write_table(pa.table({"price": prices, "kind": ["a", "b", "c"]}), tmp_path / "table.parquet")
    frame = read_table(tmp_path / "table.parquet").frame
    expected = pd.Series([0.1, None, 12.3], name="price")
    pd.testing.assert_series_equal(frame["price"], expected)
    assert frame["kind"].tolist() == ["a", "b", "c"]


def test_a_record_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    (tmp_path / "records.csv").write_text("age,income\n44,23500\n31")
    with pytest.raises(DataError, match=r"Line 3 of 'records.csv' has 1 values, but the header has 2 names"):
        read_table(tmp_path / "records.csv", name="records.csv", as_text=True)


def test_codes_with_leading_zeros_stay_texts(tmp_path: Path) -> None:
    rows = ["branch,hour,share,size", "00123,00,0.5,0", "77,9,0,12", ",23,00.5,7"]
    (tmp_path / "table.csv").write_text("\n".join(rows))
    frame = read_table(tmp_path / "table.csv").frame
    assert frame["branch"].tolist()[:2] == ["00123", "77"] and pd.isna(frame["branch"][2])
    assert frame["hour"].tolist() == ["00", "9", "23"]
    assert (frame["share"].tolist(), frame["size"].tolist()) == ([0.5, 0, 0.5], [0, 12, 7])


def test_numbers_in_single_precision_are_the_decimals_that_were_written(tmp_path: Path) -> None:
    written = [round(10 + 0.01 * cent, 2) for cent in range(2000)]
    pq.write_table(pa.table({"price": pa.array([*written, None], pa.float32())}), tmp_path / "t.parquet")
    frame = read_table(tmp_path / "t.parquet").frame
    assert frame["price"].tolist()[:-1] == written and frame["price"].isna().sum() == 1
    assert infer_step(frame["price"].dropna().to_numpy()) == 0.01
