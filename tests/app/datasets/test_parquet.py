"""Parquet files that lie about their size: they are unpacked in a process that has little memory, not in this one."""

from decimal import Decimal
from pathlib import Path
from typing import NoReturn

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets import reader
from app.datasets.reader import TableLimits, read_parquet
from app.errors import TooLargeError
from models.errors import DataError

LIMITS = TableLimits(rows=5_000, columns=50, bytes=1_000_000)


@pytest.fixture
def unpack_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is unpacked in this process is a fault; the child is another."""

    def unpack(file: pq.ParquetFile, limits: TableLimits) -> NoReturn:
        raise AssertionError("the file was unpacked in this process")

    monkeypatch.setattr(reader, "unpack", unpack)


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


@pytest.mark.usefixtures("unpack_nothing")
def test_a_file_that_says_it_is_small_is_not_unpacked_here(tmp_path: Path) -> None:
    write_lie(tmp_path / "lie", [f"{n}" + "x" * 2_000_000 for n in range(30)], rows_a_group=1)
    with pytest.raises(TooLargeError, match="more than 20000000 bytes when unpacked"):
        read_parquet(tmp_path / "lie", LIMITS)


@pytest.mark.slow
@pytest.mark.usefixtures("unpack_nothing")
def test_a_batch_past_all_memory_ends_the_child_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted after each batch would come too late."""
    write_lie(tmp_path / "lie", ["x" * 10_000_000] * 40, rows_a_group=40)
    monkeypatch.setattr(reader, "TRIAL_BYTES", 400 * 2**20)
    with pytest.raises(TooLargeError, match="bytes of memory on the way: send a sample"):
        read_parquet(tmp_path / "lie", TableLimits(rows=5_000, columns=50, bytes=10**9))


def test_a_file_that_takes_for_ever_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "table")
    monkeypatch.setattr(reader, "TRIAL_SECONDS", 0.001)
    with pytest.raises(TooLargeError, match=r"took more than 0\.001 s"):
        read_parquet(tmp_path / "table", LIMITS)


@pytest.mark.slow
def test_a_large_honest_file_is_read_within_the_child_s_memory(tmp_path: Path) -> None:
    table = pa.table({f"c{n}": pa.array(range(200_000), type=pa.float64()) for n in range(50)})
    pq.write_table(table, tmp_path / "table")
    found = read_parquet(tmp_path / "table", TableLimits(rows=10**6, columns=50, bytes=10**8))
    assert found.equals(table.to_pandas())


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
