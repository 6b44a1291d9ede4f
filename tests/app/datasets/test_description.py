"""Tables that take more than they seem to: they are read in a process that has little memory, not in this one."""

import json
import re
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets import description
from app.datasets.description import Question, describe, describe_here
from app.datasets.reader import TableLimits, read_parquet
from app.errors import TooLargeError
from models.errors import DataError, RecourseError

LIMITS = TableLimits(rows=5_000, columns=50, bytes=1_000_000)


@pytest.fixture
def read_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read in this process is a fault; the child is another."""

    def read(question: Question) -> NoReturn:
        raise AssertionError("the file was read in this process")

    monkeypatch.setattr(description, "describe_here", read)


def varint(number: int) -> bytes:
    """As Thrift writes a number that is not negative."""
    number, parts = 2 * number, []
    while number >= 128:
        parts.append(number % 128 + 128)
        number //= 128
    return bytes((*parts, number))


def write_lie(path: Path, texts: list[str], rows_a_group: int) -> None:
    """A file whose footer tells of 0 bytes, whatever its pages unpack to."""
    table = pa.table({"a": texts})
    pq.write_table(table, path, row_group_size=rows_a_group, compression="zstd", use_dictionary=False)
    content, footer = path.read_bytes(), pq.read_metadata(path)
    cut = len(content) - 8 - footer.serialized_size
    end = content[cut:]
    for group in range(footer.num_row_groups):
        told = varint(footer.row_group(group).total_byte_size)
        end = end.replace(told, b"\x80" * (len(told) - 1) + b"\0")
    path.write_bytes(content[:cut] + end)
    lied = pq.read_metadata(path)
    assert sum(lied.row_group(group).total_byte_size for group in range(lied.num_row_groups)) == 0
    assert path.stat().st_size < LIMITS.bytes


@pytest.mark.usefixtures("read_nothing")
def test_a_file_that_says_it_is_small_is_not_unpacked_here(tmp_path: Path) -> None:
    write_lie(tmp_path / "lie", [f"{n}" + "x" * 2_000_000 for n in range(30)], rows_a_group=1)
    with pytest.raises(TooLargeError, match="more than 20000000 bytes when unpacked"):
        describe(Question(tmp_path / "lie", LIMITS))


@pytest.mark.slow
@pytest.mark.usefixtures("read_nothing")
def test_a_batch_past_all_memory_ends_the_child_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted after each batch would come too late."""
    write_lie(tmp_path / "lie", ["x" * 10_000_000] * 40, rows_a_group=40)
    monkeypatch.setattr(description, "TABLE_BYTES", 400 * 2**20)
    with pytest.raises(TooLargeError, match="bytes of memory: send a sample"):
        describe(Question(tmp_path / "lie", TableLimits(rows=5_000, columns=50, bytes=10**9)))


@pytest.mark.slow
@pytest.mark.usefixtures("read_nothing")
def test_a_csv_past_all_memory_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame(np.arange(4_000_000).reshape(-1, 40)).to_csv(tmp_path / "table.csv", index=False)
    monkeypatch.setattr(description, "TABLE_BYTES", 200 * 2**20)
    with pytest.raises(TooLargeError, match="bytes of memory: send a sample"):
        describe(Question(tmp_path / "table.csv", TableLimits(rows=10**6, columns=50, bytes=10**9)))


@pytest.mark.usefixtures("read_nothing")
def test_millions_of_missing_values_are_counted_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """800 million of them are a file of 2 MB, and took 14 GB."""
    pq.write_table(pa.table({f"c{n}": pa.nulls(1_000_000, pa.float64()) for n in range(80)}), tmp_path / "bomb")
    assert (tmp_path / "bomb").stat().st_size < 200_000
    monkeypatch.setattr(description, "TABLE_BYTES", 400 * 2**20)
    limits = TableLimits(rows=2_000_000, columns=500, bytes=512 * 2**20)
    with pytest.raises(TooLargeError, match="1000000 rows of 80 values, but 67108864 is the limit"):
        describe(Question(tmp_path / "bomb", limits))


def test_a_csv_has_as_few_values(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b,c\n" + "1,2,3\n" * 100)
    with pytest.raises(TooLargeError, match="100 rows of 3 values, but 250 is the limit"):
        describe(Question(tmp_path / "table.csv", TableLimits(rows=1_000, columns=10, bytes=2_000)))


def test_a_file_that_takes_for_ever_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "table")
    with monkeypatch.context() as patched, pytest.raises(TooLargeError, match=r"took more than 0\.001 s"):
        patched.setattr(description, "MOST_SECONDS", 0.001)
        describe(Question(tmp_path / "table", LIMITS))
    (tmp_path / "table.csv").write_text("a,b\n" + "x1,2\n" * 1_000_000)
    monkeypatch.setattr(description, "TABLE_SECONDS", 1)
    with pytest.raises(TooLargeError, match="more than 1 s of a processor"):
        describe(Question(tmp_path / "table.csv", TableLimits(10**7, 50, 10**8)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.usefixtures("read_nothing")
def test_a_large_honest_file_is_read_within_the_child_s_memory(tmp_path: Path, kind: str) -> None:
    values = np.random.default_rng(0).integers(0, 9_000, (200_000, 50)) / 10
    frame = pd.DataFrame(values, columns=[f"c{n}" for n in range(50)])
    path = tmp_path / f"table.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    found = describe(Question(path, TableLimits(rows=10**6, columns=50, bytes=10**8)))
    assert (found.ending, found.rows, len(found.schema["features"])) == (f".{kind}", 200_000, 50)


def test_the_child_finds_what_this_process_finds(tmp_path: Path) -> None:
    """With its errors, by name and sentence."""
    path = tmp_path / "table.csv"
    frame = pd.DataFrame({"age": [20, 30, 40, 50] * 9_000, "home": ["own", "rent"] * 18_000, "yes": [0, 1] * 18_000})
    frame.to_csv(path, index=False)
    limits = TableLimits(rows=10**6, columns=50, bytes=10**7)
    assert path.stat().st_size > description.QUICK_BYTES
    for question in (Question(path, limits), Question(path, limits, "yes", ("age",))):
        assert json.loads(json.dumps(asdict(describe_here(question)))) == asdict(describe(question))
    for question in (Question(path, limits, "no such"), Question(path, TableLimits(9, 9, 10**7))):
        with pytest.raises(RecourseError) as here:
            describe_here(question)
        with pytest.raises(here.type, match=re.escape(str(here.value))):
            describe(question)


def test_broken_pages_are_told_of(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [f"text {n}" for n in range(1000)]}), tmp_path / "table")
    content = bytearray((tmp_path / "table").read_bytes())
    content[4:400] = bytes(396)
    (tmp_path / "table").write_bytes(bytes(content))
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_parquet(tmp_path / "table", LIMITS)


def test_decimals_are_numbers(tmp_path: Path) -> None:
    prices = [Decimal("0.10"), None, Decimal("12.30")]
    kinds = {"price": pa.decimal128(10, 2), "wide": pa.decimal256(50, 2)}
    columns = {name: pa.array(prices, kind) for name, kind in kinds.items()}
    pq.write_table(pa.table(columns | {"kind": ["a", "b", "c"]}), tmp_path / "table")
    frame = read_parquet(tmp_path / "table", LIMITS)
    for name in columns:
        pd.testing.assert_series_equal(frame[name], pd.Series([0.1, None, 12.3], name=name))
    assert frame["kind"].tolist() == ["a", "b", "c"]
