"""How a training run tells of its progress."""

from typing import Protocol


class Report(Protocol):
    """Called every few steps: the phase, the step reached of so many, the loss or another figure of the phase."""

    def __call__(self, phase: str, step: int, steps: int, figure: float) -> None: ...


def silent(phase: str, step: int, steps: int, figure: float) -> None:
    """A report that goes nowhere."""
