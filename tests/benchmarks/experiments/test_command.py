"""What is finished is not run again; a run that fails is told, and the others count."""

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.experiments import command
from benchmarks.experiments.bench import Bench, Settings
from benchmarks.experiments.command import Unit, in_workers, main
from benchmarks.experiments.experiment import (
    COST,
    VALIDITY,
    Experiment,
    Measured,
    Rows,
    Scope,
    add_time,
    forget_time,
    read_times,
)
from benchmarks.experiments.pictures import draw_bars
from benchmarks.store import Places
from models.errors import ArtifactError, DataError, RecourseError

SCOPE = Scope(("moons", "circles"), ("one", "two"))


def experiment(run: Callable[[Bench, str], Measured], source: str | None = None) -> Experiment:
    draw = draw_bars("made up", (COST, VALIDITY))
    return Experiment("made_up", "Made up", "nowhere", "", SCOPE, SCOPE, (COST, VALIDITY), run, draw, source)


def run_it(
    monkeypatch: pytest.MonkeyPatch, folder: Path, answer: Callable[[Bench, str], Measured], *arguments: str
) -> tuple[int, list[tuple[str, int, str]]]:
    """The exit code, and what was run"""
    ran: list[tuple[str, int, str]] = []

    def run(bench: Bench, variant: str) -> Measured:
        ran.append((bench.dataset, bench.seed, variant))
        return answer(bench, variant)

    made = experiment(run)
    monkeypatch.setitem(command.CATALOGUE, made.name, made)
    monkeypatch.setattr(command, "Console", lambda **options: Console(file=io.StringIO()))
    return main([made.name, "--results", str(folder), "--cache", str(folder), *arguments]), ran


def fine(bench: Bench, variant: str) -> Measured:
    return Measured({"cost": 1.0 + bench.seed, "validity": 0.9}, {"curve": [1 / 3]}, "a note")


def test_the_time_of_all_runs_is_added_up_until_it_is_run_afresh(tmp_path: Path) -> None:
    add_time(tmp_path / "new", "musk", 60.0, 2)
    add_time(tmp_path / "new", "musk", 30.0, 2)
    add_time(tmp_path / "new", "sex", 5.0, 1)
    assert read_times(tmp_path / "new") == {"musk": {"2": 90.0}, "sex": {"1": 5.0}}
    forget_time(tmp_path / "new", "musk")
    assert read_times(tmp_path / "new") == {"sex": {"1": 5.0}}


def test_what_is_finished_is_not_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, ran = run_it(monkeypatch, tmp_path, fine, "--quick")
    assert code == 0 and ran == [(name, 0, variant) for name in SCOPE.datasets for variant in SCOPE.variants]
    assert run_it(monkeypatch, tmp_path, fine, "--quick")[1] == []
    assert run_it(monkeypatch, tmp_path, fine, "--quick", "--seeds", "0-1", "--datasets", "moons")[1] == [
        ("moons", 1, "one"),
        ("moons", 1, "two"),
    ]
    folder = tmp_path / "paper" / "quick"
    assert read_times(folder)["made_up"]["1"] >= 0
    assert len(run_it(monkeypatch, tmp_path, fine, "--quick", "--fresh")[1]) == 4
    page = (folder / "made_up.md").read_text()
    assert "| moons | one | 2 | 1.500 ± 0.500 | 0.900 ± 0.000 |" in page and "a note" in page
    assert "Quick run" in page and "seeds 0, 1" in page
    assert (folder / "made_up.png").read_bytes().startswith(b"\x89PNG")


def test_a_quick_run_does_not_count_as_a_full_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run_it(monkeypatch, tmp_path, fine, "--quick")
    assert len(run_it(monkeypatch, tmp_path, fine, "--seeds", "0")[1]) == 4
    assert (tmp_path / "paper" / "full" / "made_up.json").exists()


def test_a_failure_is_tried_again_and_spoils_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def shaky(bench: Bench, variant: str) -> Measured:
        if (bench.dataset, variant) == ("moons", "one"):
            raise DataError("no rows")
        return fine(bench, variant)

    assert run_it(monkeypatch, tmp_path, shaky, "--quick")[0] == 1
    assert [(row.dataset, row.variant) for row in Rows(tmp_path / "paper" / "quick", "made_up").rows] == [
        ("moons", "two"),
        ("circles", "one"),
        ("circles", "two"),
    ]
    assert run_it(monkeypatch, tmp_path, fine, "--quick") == (0, [("moons", 0, "one")])


def test_rows_come_back_and_a_damaged_file_is_refused(tmp_path: Path) -> None:
    store = Rows(tmp_path, "made_up")
    store.put("moons", 0, "one", Measured({"cost": 1 / 3}, {"curve": [1 / 3]}, "so"))
    store.put("moons", 0, "one", Measured({"cost": 2 / 3}))
    (row,) = Rows(tmp_path, "made_up").rows
    assert (row.values, row.curves, row.note) == ({"cost": 2 / 3}, {}, "")
    store.path.write_text('[{"dataset": "moons"}]')
    with pytest.raises(ArtifactError, match="delete it to start anew"):
        Rows(tmp_path, "made_up")


def test_an_experiment_takes_its_runs_from_another_and_writes_its_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "paper" / "quick"
    Rows(folder, "table2").put("spirals", 0, "argument", Measured({"lof": 1.1, "isoforest": 0.5, "cost": 0.4}))
    options = ["--quick", "--variants", "argument", "--results", str(tmp_path), "--cache", str(tmp_path)]
    assert main(["plausibility", *options]) == 0
    page = (folder / "plausibility.md").read_text()
    assert "| spirals | argument | 1 | 1.10 (paper: 1.16) ▲ beats | 0.50 (paper: 0.5) ▲ beats |" in page
    assert {path.suffix for path in folder.glob("plausibility.*")} == {".json", ".md", ".png"}


def test_two_workers_run_every_variant_of_a_unit_in_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Threads in the place of processes, which take seconds each to start; test_quality starts real ones.
    monkeypatch.setattr(command, "ProcessPoolExecutor", lambda max_workers, mp_context: ThreadPoolExecutor(max_workers))
    units = [Unit("table2", "nowhere", 0, ("densityflow", "argument")), Unit("table2", "no such", 0, ("oracle",))]
    outcomes = list(in_workers(units, Settings(), Places(None, tmp_path), 2))
    assert sorted((each.unit.dataset, each.variant) for each in outcomes) == [
        ("no such", "oracle"),
        ("nowhere", "argument"),
        ("nowhere", "densityflow"),
    ]
    assert all(isinstance(each.result, RecourseError) for each in outcomes)
    assert all("There is no data set" in str(each.result) for each in outcomes)
