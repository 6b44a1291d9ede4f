"""`python -m worker`, which `recourse worker` starts: the explainer's server and the trainer, or one of them.

Each is a process of its own. When one of them ends, so does the other: whoever runs the worker starts it anew. When
this process ends, be it by kill -9, so do they.
"""

import signal
import subprocess
import sys
import time
from typing import Annotated, Literal

import structlog
import typer

from app import logs
from app.db.engine import open_database
from app.settings import Settings
from worker.process import end_with_parent

Part = Literal["explain", "train"]
PARTS: dict[Part, tuple[str, ...]] = {
    "explain": ("-m", "worker.explain_server", "--with-parent"),
    "train": ("-m", "worker", "--only", "train", "--with-parent"),
}
STOP_SECONDS = 60.0

log = structlog.get_logger()


def run(
    only: Annotated[str | None, typer.Option(help="explain or train; by default both.")] = None,
    with_parent: Annotated[bool, typer.Option("--with-parent", help="End when stdin ends.")] = False,
) -> None:
    """Explain and train for an API that runs elsewhere."""
    if with_parent:
        end_with_parent()
    settings = Settings()
    logs.configure(settings)
    if only == "train":
        _train(settings)
    elif only == "explain":
        raise SystemExit(_supervise(("explain",)))
    elif only is None:
        raise SystemExit(_supervise(("explain", "train")))
    else:
        raise typer.BadParameter(f"'{only}' is neither explain nor train.")


def _train(settings: Settings) -> None:
    if settings.redis_url is None:
        from worker.trainer import run as run_trainer

        run_trainer()
        return
    from worker.trainer import serve

    database = open_database(settings.database, pool_size=4)
    try:
        serve(settings, database, settings.redis_url.get_secret_value())
    finally:
        database.close()


def _supervise(parts: tuple[Part, ...]) -> int:
    """Run the parts until one ends or a signal comes; then end them all. The exit code of the first to end."""
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stopped.append(number))
    children = [
        subprocess.Popen([sys.executable, *PARTS[part]], stdin=subprocess.PIPE, start_new_session=True)
        for part in parts
    ]
    while not stopped and all(child.poll() is None for child in children):
        time.sleep(0.1)
    code = 0 if stopped else next(child.returncode for child in children if child.poll() is not None)
    for child in children:
        child.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for child in children:
        try:
            child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return 1 if code < 0 else code


if __name__ == "__main__":
    typer.run(run)
