"""The speed benchmark: a whole run in small, and how its ratios are taken."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.speed import __main__ as speed
from benchmarks.speed.__main__ import Scale, main
from benchmarks.speed.report import Race, Run, figures_of

PAPER = Run("paper", 0.01, 200, 20_000, 3, 100.0, 0.80, 1.0)
FAST = Run("fast", 0.1, 90, 900, 20, 4.0, 0.85, 0.95)


def test_the_ratio_is_that_of_the_first_run_that_is_as_valid_and_as_cheap() -> None:
    early = replace(PAPER, seconds=40.0, validity=0.5, steps=100)
    weak, dear = replace(FAST, seconds=1.0, validity=0.79), replace(FAST, seconds=2.0, cost=1.2)
    race = Race("moons", (early, PAPER), (weak, dear, FAST), generator_seconds=50.0)
    assert race.end == PAPER and race.winner == FAST
    assert race.ratio == pytest.approx(25.0)
    assert race.steps_per_second == pytest.approx(4.0)
    assert race.whole_hours == pytest.approx(20_000 / 4 / 3600)


def test_the_best_moment_of_the_paper_s_schedule_counts_unless_it_costs_more_than_its_end() -> None:
    end, dear = replace(PAPER, steps=20_000), replace(PAPER, seconds=20.0, validity=0.99, cost=3.0)
    better = replace(PAPER, seconds=40.0, validity=0.82, cost=0.97)
    race = Race("moons", (dear, end), (FAST,), generator_seconds=50.0)
    assert race.whole and race.wanted == end and race.ratio == pytest.approx(25.0)
    race = Race("moons", (dear, better, end), (replace(FAST, validity=0.81), FAST), generator_seconds=50.0)
    assert race.wanted == better and race.winner == FAST and race.ratio == pytest.approx(10.0)
    (ratio, *_) = figures_of([race], [], [], "idle")
    assert "ended with validity 0.800" in ratio.detail and "was best with 0.820 at 0.970 after 40 s" in ratio.detail


def test_what_is_not_reached_has_no_ratio() -> None:
    race = Race("moons", (PAPER,), (replace(FAST, validity=0.1),), generator_seconds=50.0)
    assert race.winner is None
    (ratio, *_) = figures_of([race], [], [], "idle")
    assert ratio.value is None and "no run of `fast`" in ratio.detail and "200 of 20000 steps" in ratio.detail


def test_a_whole_run_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = Scale(
        paper_share=0.00125, efforts=(0.005,), searched=0.005, judged=10, batch=8, alone=2, repeats=1, latency=3
    )
    monkeypatch.setattr(speed, "QUICK", scale)
    places = ["--results", str(tmp_path / "results"), "--cache", str(tmp_path / "cache")]
    assert main(["--quick", "--datasets", "moons", "--members", "knn", "mlp", *places]) == 0
    figures = json.loads((tmp_path / "results" / "speed.json").read_text())
    named = {figure["name"]: figure["value"] for figure in figures}
    ratios = {"training_moons_ratio", "search_moons_ratio", "search_moons_published_ratio"}
    assert ratios | {"alone_moons_median", "alone_loans_p95"} <= set(named)
    assert all(set(figure) == {"name", "value", "unit", "detail"} for figure in figures)
    assert named["alone_moons_median"] > 0 and named["search_moons_batch"] > 0
    page = (tmp_path / "results" / "SPEED.md").read_text()
    assert "`paper` ran" in page and "Where the time goes" in page and "steps a second" in page
