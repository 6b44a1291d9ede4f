"""Progress bars on stderr: one a phase, in the order in which the phases start."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from models.ensemble.local import EnsembleProgress

SILENT = {"ensemble": "teachers", "finetune": "frontier"}
"""What follows these phases does not report: the teachers and the choice of features; the frontier."""


class Bars:
    """A context that shows a training run; `ensemble` and `report` are what the run calls."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._silent: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._close_silent()
        self._progress.stop()

    def ensemble(self, progress: EnsembleProgress) -> None:
        """For models.ensemble.local.train_local_ensemble."""
        self._show("ensemble", progress.done, progress.total, f"{progress.member}: {progress.stage}")

    def report(self, phase: str, step: int, steps: int, figure: float) -> None:
        """For models.training.train: a models.training.schedule.Report."""
        self._show(phase, step, steps, f"loss {figure:.3f}")

    def wait(self, phase: str) -> None:
        """A phase that does not report; it lasts until the next one starts."""
        self._close_silent()
        self._silent = self._progress.add_task(phase, total=None, note="")

    def _show(self, phase: str, done: int, total: int, note: str) -> None:
        if phase not in self._tasks:
            self._close_silent()
            self._tasks[phase] = self._progress.add_task(phase, total=total, note=note)
        self._progress.update(self._tasks[phase], completed=done, note=note)
        if done == total and phase in SILENT:
            self.wait(SILENT[phase])

    def _close_silent(self) -> None:
        if self._silent is not None:
            self._progress.update(self._silent, completed=1, total=1)
        self._silent = None
