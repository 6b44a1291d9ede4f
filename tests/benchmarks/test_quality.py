"""The quality benchmark: what is finished is not run again, files are whole, marks are computed, one run is real."""

import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.quality.__main__ import Ended, complete, main
from benchmarks.quality.cache import TRAINING, TrainingCache, source_digest
from benchmarks.quality.report import METHODS, draw_picture, write_report
from benchmarks.quality.run import config_for, parse_seeds, run_job
from benchmarks.quality.summary import (
    QUALITY_FILE,
    FrontierRow,
    Job,
    MeasuredPoint,
    Outcome,
    Store,
    Summary,
    mark,
    mean_frontier,
    reaches_the_limit,
    summarise,
    validity_at,
)
from benchmarks.store import Places, write_whole
from models.config import fast
from models.datasets.dataset import split_dataset
from models.datasets.synthetic import four_blobs
from models.errors import ArtifactError, DataError
from models.evaluation.evaluation import PUBLISHED, Method, Published, Quality
from tests.models.tiny import TINY

MEMBERS = ("knn", "mlp")
JOBS = [Job("moons", seed, "quick", 200) for seed in range(3)]


def quality(method: Method, validity: float = 0.9, cost: float = 1.0, unanimity: float = 0.8) -> Quality:
    return Quality(method, validity, unanimity, cost, 1.5, 2.5, 0.4, 1.1, 0.45, 7, 480, 12.0, 200, 0.2)


def evaluated(validity: float = 0.9, cost: float = 1.0) -> Outcome:
    frontier = (MeasuredPoint(0.1, cost, validity, 0.5), MeasuredPoint(0.5, cost / 2, validity / 2, 0.1))
    return Outcome(tuple(quality(method, validity, cost) for method in METHODS), frontier)


class Runner:
    """Answers every job at once and remembers which ones it was given."""

    def __init__(self, answer: Callable[[Job], Outcome | DataError]) -> None:
        self.answer = answer
        self.ran: list[Job] = []

    def __call__(self, jobs: Sequence[Job]) -> Iterator[Ended]:
        for job in jobs:
            self.ran.append(job)
            yield job, self.answer(job)


def silent() -> Console:
    return Console(file=io.StringIO())


def run(folder: Path, jobs: Sequence[Job] = JOBS, fresh: bool = False, validity: float = 0.9) -> list[Job]:
    """What a new start of the benchmark runs."""
    runner = Runner(lambda job: evaluated(validity))
    assert complete(jobs, Store(folder), runner, silent(), fresh) == 0
    return runner.ran


def test_what_is_finished_is_not_run_again(tmp_path: Path) -> None:
    assert run(tmp_path, JOBS[:2]) == JOBS[:2]
    assert run(tmp_path) == JOBS[2:]
    assert run(tmp_path) == []
    assert run(tmp_path, fresh=True, validity=0.7) == JOBS
    assert {row.quality.validity for row in Store(tmp_path).qualities} == {0.7}


def test_another_number_of_records_is_another_run_and_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    run(tmp_path)
    more = replace(JOBS[1], limit=500)
    assert run(tmp_path, [more]) == [more]
    store = Store(tmp_path)
    assert [row.job for row in store.qualities] == [JOBS[0]] * 3 + [JOBS[2]] * 3 + [more] * 3
    assert len(store.frontier) == 6


def test_every_run_is_on_disk_before_the_next_one_ends_and_a_failed_one_is_tried_again(tmp_path: Path) -> None:
    seen: list[int] = []

    def answer(job: Job) -> Outcome | DataError:
        path = tmp_path / QUALITY_FILE
        seen.append(len(json.loads(path.read_text())) if path.exists() else 0)
        return DataError("no rows") if job.seed == 1 else evaluated()

    runner = Runner(answer)
    assert complete(JOBS, Store(tmp_path), runner, silent(), False) == 1
    assert seen == [0, 3, 3]
    assert run(tmp_path) == [JOBS[1]]


def test_rows_have_the_promised_keys_and_come_back_as_they_were(tmp_path: Path) -> None:
    run(tmp_path, JOBS[:1])
    row = json.loads((tmp_path / QUALITY_FILE).read_text())[0]
    promised = (
        "dataset method seed validity unanimity cost sparsity queries_train queries_per_explanation train_seconds"
    )
    assert set(row) >= {*promised.split(), "explain_ms", "lof", "isoforest"}
    assert tuple(row.quality for row in Store(tmp_path).qualities) == evaluated().qualities
    assert tuple(row.point for row in Store(tmp_path).frontier) == evaluated().frontier


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / QUALITY_FILE
    write_whole(path, "old")

    def full_disk(descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        write_whole(path, "new")
    assert [file.name for file in tmp_path.iterdir()] == [QUALITY_FILE] and path.read_text() == "old"


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / QUALITY_FILE).write_text("[{")
    with pytest.raises(ArtifactError, match="is not JSON"):
        Store(tmp_path)
    (tmp_path / QUALITY_FILE).write_text("{}")
    with pytest.raises(ArtifactError, match="list of rows"):
        Store(tmp_path)


def test_a_real_run_trains_once_and_measures_the_same_again(tmp_path: Path) -> None:
    job, places = Job("four_blobs", 1, "quick", 12), Places(None, tmp_path)
    first = run_job(job, places, TINY, MEMBERS)
    made = sorted(path.name for path in tmp_path.iterdir())
    again = run_job(job, places, TINY, MEMBERS)
    assert [path.split("-")[0] for path in made] == ["ensemble", "model", "model"]
    assert sorted(path.name for path in tmp_path.iterdir()) == made
    assert first.frontier == again.frontier and len(first.frontier) > 10
    for one, other in zip(first.qualities, again.qualities, strict=True):
        assert one == replace(other, explain_ms=one.explain_ms)
    assert first.qualities[0].train_seconds > 0 and first.qualities[2].unanimity == 1.0
    cache, study = TrainingCache(tmp_path, MEMBERS), split_dataset(four_blobs(), 1)
    cache.model(job, study, cache.ensemble(job, study), replace(TINY, loss=replace(TINY.loss, density=0.2)))
    assert len(list(tmp_path.glob("model-*.seconds"))) == 2 and len(list(tmp_path.glob("ensemble-*"))) == 1


def test_a_worker_tells_what_is_wrong_and_the_others_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, JOBS[:1])
    folders = ["--results", str(tmp_path), "--cache", str(tmp_path / "cache")]
    limit = ["--records", str(JOBS[0].limit)]
    assert main(["--datasets", "moons", "nowhere", "--seeds", "0", *limit, *folders]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "1 of 2 runs are finished" in said and "There is no data set 'nowhere'" in said
    assert "| moons | 1 | 0.867 | 0.997 | 1.000 ± 0.000 | 0.900 ± 0.000 |" in (tmp_path / "QUALITY.md").read_text()
    assert (tmp_path / "quality.png").read_bytes().startswith(b"\x89PNG")


def test_the_mark_beside_the_paper(tmp_path: Path) -> None:
    store, paper = Store(tmp_path), Published(cost=1.0, validity=0.9)
    for job, validity, cost in zip(JOBS, (0.8, 0.9, 1.0), (0.9, 1.0, 1.1), strict=True):
        store.put(job, evaluated(validity, cost))
    ours = summarise(store.qualities, "moons", "densityflow")
    assert str(ours.validity) == "0.900 ± 0.082" and str(ours.cost) == "1.000 ± 0.082"
    assert mark(ours, replace(paper, validity=0.9 - 1e-9, cost=1.0 + 1e-9)) == "beats"
    assert mark(ours, replace(paper, validity=0.98)) == "matches within one std"
    assert mark(ours, replace(paper, validity=0.8, cost=0.95)) == "matches within one std"
    assert mark(ours, replace(paper, validity=0.99)) == "falls short"
    assert mark(ours, replace(paper, cost=0.9)) == "falls short"


def test_the_validity_at_a_cost_lies_between_two_settings_of_the_dial() -> None:
    points = [MeasuredPoint(0.5, 1.0, 0.6, 0.0), MeasuredPoint(0.1, 2.0, 0.8, 0.0)]
    frontier = [FrontierRow(JOBS[0], point) for point in reversed(points)]
    frontier += [FrontierRow(JOBS[1], replace(point, validity=1.0)) for point in points]
    there = validity_at(frontier, "moons", 1.5)
    assert there is not None and (there.mean, there.std) == pytest.approx((0.85, 0.15))
    assert validity_at(frontier, "adult", 1.5) is None


def test_the_limit_is_reached_by_both_ratios() -> None:
    limit = Summary((quality("oracle", 1.0, 1.0, unanimity=0.8),))

    def reached(unanimity: float, cost: float) -> bool:
        return reaches_the_limit(Summary((quality("densityflow-verified", 0.9, cost, unanimity),)), limit)

    assert reached(0.77, 1.09)
    assert not reached(0.75, 1.09)
    assert not reached(0.77, 1.11)


def test_the_frontier_is_the_mean_over_the_seeds_and_all_is_drawn(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(JOBS[0], evaluated(0.8, 1.0))
    store.put(JOBS[1], evaluated(1.0, 2.0))
    store.put(Job("loans", 0, "quick", 200), evaluated())
    cheap, robust = mean_frontier(store.frontier, "moons")
    assert (cheap.price, robust.price) == (0.5, 0.1)
    assert (robust.cost, robust.validity) == pytest.approx((1.5, 0.9))
    page = write_report(store.qualities, store.frontier)
    assert page.count("\n| moons |") == 5 and page.count("\n| loans |") == 5
    draw_picture(store.qualities, store.frontier, tmp_path / "quality.png")
    assert (tmp_path / "quality.png").stat().st_size > 10_000


def test_musk_flows_in_ten_features_and_the_source_of_the_search_does_not_matter_to_a_model() -> None:
    assert config_for("musk").top_features == 10 and config_for("adult") == fast()
    assert len(PUBLISHED) == 9
    assert source_digest(TRAINING) == source_digest(TRAINING) != source_digest("models.search.search")


def test_seeds_are_a_span_or_a_list() -> None:
    assert parse_seeds("0-4") == (0, 1, 2, 3, 4)
    assert parse_seeds("3") == (3,) and parse_seeds("0,2,5") == (0, 2, 5)
