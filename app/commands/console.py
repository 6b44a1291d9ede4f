"""Where words go: stdout carries what was asked for, stderr carries progress bars, notes and complaints.

Names come from the user's table: "[/b]" and ":car:" are shown as they are, not taken for markup.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from models.ensemble.local import EnsembleProgress

SILENT = {"ensemble": "jury", "distill": "frontier"}
"""What follows these phases does not report: the jury and the choice of features; anchors and the frontier."""


def answers() -> Console:
    """A console on stdout as it is now, so that it follows a redirection."""
    return Console(highlight=False, markup=False, emoji=False)


def notes() -> Console:
    """stderr."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def complain(sentence: str) -> None:
    """One red sentence on stderr; unwrapped, so that a log or a test can find it."""
    notes().print(Text(sentence, style="red"), soft_wrap=True)


class Bars:
    """A training run on stderr, one bar a phase in the order in which the phases start; the run calls its methods."""

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

    def ensemble(self, progress: "EnsembleProgress") -> None:
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
