"""`recourse worker`: becomes `python -m worker`, because app does not import worker."""

import os
import sys
from enum import StrEnum
from typing import Annotated

import typer

from app.settings import ONE_THREAD

app = typer.Typer(add_completion=False)


class Part(StrEnum):
    """What a worker does."""

    EXPLAIN = "explain"
    TRAIN = "train"


@app.command()
def worker(only: Annotated[Part | None, typer.Option(help="Do only this; by default both.")] = None) -> None:
    """Serve explanations and train models for an API that runs elsewhere; RECOURSE_... says where everything is."""
    chosen = [] if only is None else ["--only", only.value]
    environment = {**ONE_THREAD, **os.environ}
    os.execve(sys.executable, [sys.executable, "-m", "worker", *chosen], environment)


if __name__ == "__main__":
    app()
