"""A run that was interrupted and goes on ends in the same bits, and buys nothing twice."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import benchmarks.experiments.proxies  # noqa: F401 - makes the loss know disc2
from models.arrays import Records
from models.config import Config
from models.datasets.synthetic import four_blobs
from models.errors import ArtifactError, QueryLimitError, StoppedError
from models.model import RecourseModel
from models.storage.artifact import save_model
from models.storage.sealed import write_object, write_sealed
from models.training.checkpoint import Checkpoints, Snapshot, load_checkpoint, save_checkpoint
from models.training.train import train
from tests.models.tiny import TINY, Scorecards, Task, make_task

CONFIG = replace(
    TINY,
    surrogate=replace(TINY.surrogate, steps=6, batch=32, jury=True),
    generator=replace(TINY.generator, steps=5, batch=32),
    distill=replace(TINY.distill, rounds=3, queries=4, surrogate_steps=2, generator_steps=2),
)
VARIANTS: dict[str, Callable[[Config], Config]] = {
    "jury": lambda c: c,
    "joint, spectral, drawn proxy": lambda c: replace(
        c,
        surrogate=replace(c.surrogate, jury=False, spectral=True, votes=False),
        generator=replace(c.generator, joint=True),
        loss=replace(c.loss, proxy="disc2"),
        top_features=1,
    ),
}


@pytest.fixture(scope="module")
def task() -> Task:
    return make_task(four_blobs(60))


class Shelf:
    """Keeps every snapshot on disk, as a worker would."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder, list[Path]()

    def __call__(self, snapshot: Snapshot) -> None:
        place = self.folder / f"{len(self.kept):03}"
        save_checkpoint(snapshot, place)
        self.kept.append(place)


def run(task: Task, config: Config, lender: Scorecards, checkpoints: Checkpoints | None = None) -> RecourseModel:
    return train(task, lender, config, seed=4, checkpoints=checkpoints)


def digest_of(model: RecourseModel, folder: Path) -> str:
    """The content hash: of weights, calibration, frontier, queries and settings."""
    return save_model(model, folder)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_bits_wherever_it_was_interrupted(task: Task, tmp_path: Path, variant: str) -> None:
    config, lender, shelf = VARIANTS[variant](CONFIG), Scorecards(task.encoder), Shelf(tmp_path)
    whole = digest_of(run(task, config, lender), tmp_path / "whole")
    kept = digest_of(run(task, config, Scorecards(task.encoder), Checkpoints(shelf, seconds=0.0)), tmp_path / "kept")
    assert kept == whole, "keeping checkpoints changes nothing"
    assert len(shelf.kept) == 6 + 5 + 3
    for number in (0, 5, 7, 11, 13) if config.top_features else (2, 8, 11, 12):
        torch.manual_seed(number)
        snapshot, again = load_checkpoint(shelf.kept[number]), Scorecards(task.encoder)
        resumed = run(task, config, again, Checkpoints(Shelf(tmp_path / f"from{number}"), snapshot))
        assert digest_of(resumed, tmp_path / f"resumed{number}") == whole, f"resumed from checkpoint {number}"
        left = lender.asked[max(0, number - 10) :]
        assert len(again.asked) == len(left), "what was bought before the checkpoint is not bought again"
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(again.asked, left, strict=True))


PLAIN = replace(CONFIG, surrogate=replace(CONFIG.surrogate, jury=False))


def test_it_stops_when_told_and_goes_on(task: Task, tmp_path: Path) -> None:
    whole = digest_of(run(task, PLAIN, Scorecards(task.encoder)), tmp_path / "whole")
    shelf, steps, snapshot = Shelf(tmp_path), iter(range(100)), None
    for _ in range(3):
        with pytest.raises(StoppedError, match=r"told to stop after step \d+ of \d+ of phase"):
            stopping = Checkpoints(shelf, snapshot, should_stop=lambda: next(steps) % 4 == 3)
            run(task, PLAIN, Scorecards(task.encoder), stopping)
        snapshot = load_checkpoint(shelf.kept[-1])
    assert snapshot is not None and (snapshot.phase, snapshot.step) == ("distill", 1)
    last = run(task, PLAIN, Scorecards(task.encoder), Checkpoints(shelf, snapshot))
    assert digest_of(last, tmp_path / "last") == whole


def test_without_hurry_only_the_ends_of_phases_are_kept(task: Task, tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    run(task, PLAIN, Scorecards(task.encoder), Checkpoints(shelf, clock=lambda: 0.0))
    found = [load_checkpoint(path) for path in shelf.kept]
    ends = [("surrogate", 6), ("generator", 5), ("distill", 3)]
    assert [(snapshot.phase, snapshot.step) for snapshot in found] == ends


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(task: Task, tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    run(task, PLAIN, Scorecards(task.encoder), Checkpoints(shelf, seconds=0.0))
    other = replace(PLAIN, generator=replace(PLAIN.generator, learning_rate=1.0))
    with pytest.raises(ArtifactError, match="a run with other settings"):
        run(task, other, Scorecards(task.encoder), Checkpoints(shelf, load_checkpoint(shelf.kept[0])))
    state = shelf.kept[1] / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-1] + b"x")
    with pytest.raises(ArtifactError, match="is damaged"):
        load_checkpoint(shelf.kept[1])


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    """As format 3 wrote it: the trainer starts anew, and what was queried stays bought."""
    old = {"phase": "settle", "step": 1, "facts": {}}
    write_sealed(tmp_path / "old", lambda folder: write_object(folder / "checkpoint.json", old))
    with pytest.raises(ArtifactError, match="is of another version of recourse; start the training anew"):
        load_checkpoint(tmp_path / "old")


def test_a_round_that_is_refused_its_queries_learns_from_the_others(task: Task) -> None:
    class Poor(Scorecards):
        """Pays for one round: the retries ate the rest."""

        def predict_proba(self, records: Records) -> NDArray[np.float64]:
            if self.asked:
                raise QueryLimitError("nothing is left")
            return super().predict_proba(records)

    lender = Poor(task.encoder)
    model = run(task, PLAIN, lender)
    assert len(lender.asked) == 1
    assert model.calibration.slope != 1.0 or model.calibration.bias.any()
