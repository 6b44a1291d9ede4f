"""The intervals of the survival page, on figures whose intervals are known."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.store import Row
from benchmarks.survival.figures import keep_records
from benchmarks.survival.intervals import Interval, Run, interval
from benchmarks.survival.report import write_page
from models.arrays import Floats

HARD = np.random.default_rng(3).uniform(size=400)
"""How hard each record is, for every method alike."""


def interval_of(datasets: list[list[Run]]) -> Interval:
    found = interval(datasets)
    assert found is not None
    return found


def test_the_interval_of_a_share_is_that_of_its_standard_error() -> None:
    share = np.repeat([1.0, 0.0], (100, 300))
    found, error = interval_of([[Run(share)]]), np.sqrt(0.25 * 0.75 / 400)
    assert found.mean == 0.25
    assert found.low == pytest.approx(0.25 - 1.96 * error, abs=0.2 * error)
    assert found.high == pytest.approx(0.25 + 1.96 * error, abs=0.2 * error)


def test_a_difference_is_paired_record_by_record_where_both_answer_the_same_ones() -> None:
    paired = interval_of([[Run(HARD + 0.1, HARD)]])
    apart = interval_of([[Run(HARD + 0.1, HARD, paired=False)]])
    assert [paired.low, paired.high] == pytest.approx([0.1, 0.1])
    assert apart.mean == pytest.approx(0.1)
    assert apart.high - apart.low == pytest.approx(2 * 1.96 * HARD.std() * np.sqrt(2 / 400), rel=0.1)


def test_seeds_are_drawn_too_and_data_sets_are_not() -> None:
    low, high = Run(np.full(50, 0.2)), Run(np.full(50, 0.8))
    seeds = interval_of([[low, high]])
    assert [seeds.mean, seeds.low, seeds.high] == pytest.approx([0.5, 0.2, 0.8])
    datasets = interval_of([[low], [high]])
    assert [datasets.mean, datasets.low, datasets.high] == pytest.approx([0.5, 0.5, 0.5])


def test_data_sets_count_alike_however_many_seeds_they_have() -> None:
    one, other = Run(np.full(10, 1.0)), Run(np.full(10, 0.0))
    assert interval_of([[one], [other, other, other], []]).mean == 0.5
    assert interval([[]]) is None and interval([]) is None


def test_the_page_compares_in_the_same_runs_and_pairs_nobody_with_another_person(tmp_path: Path) -> None:
    rows = [keep(tmp_path, "real-approved", 0, HARD, cost=None), keep(tmp_path, "verified-10", 0, HARD)]
    rows += [keep(tmp_path, "surrogate", 0, HARD + 0.1), keep(tmp_path, "surrogate", 1, HARD + 5.0)]
    lines = dict.fromkeys(
        line for line in write_page(rows, [], tmp_path).splitlines() if line.startswith("| surrogate ")
    )
    cells = [cell.strip() for cell in next(iter(lines)).split("|")]
    near, less_ceiling, less_base = cells[9:12]
    assert near.startswith(f"{HARD.mean() + 2.55:.3f} [")
    assert less_base == "0.100 [0.100, 0.100]"  # seed 1 has no verified-10
    assert less_ceiling.startswith("0.100 [") and less_ceiling != less_base


def test_without_the_records_the_page_has_the_means_alone(tmp_path: Path) -> None:
    row = keep(tmp_path / "elsewhere", "verified-10", 0, HARD)
    assert f"| verified-10 | 1 | 1.000 | {HARD.mean():.3f} |" in write_page([row], [], tmp_path)


def keep(cache: Path, method: str, seed: int, values: Floats, cost: float | None = 2.0) -> Row:
    row: Row = {"dataset": "loans", "seed": seed, "method": method, "rules": "none", "answered": 1.0, "cost": cost}
    names = "asked e all_a all_b all_c all_d lof typical changes queries ms coverage_abc"
    row |= dict.fromkeys(names.split(" "))
    row |= dict.fromkeys("abcd", float(values.mean()))
    each = dict.fromkeys(("a", "b", "c", "d", "isolation"), values) | {"answered": np.ones(len(values))}
    keep_records(cache, row, each)
    return row
