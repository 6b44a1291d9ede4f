"""`python -m worker`, which `recourse worker` starts: the explainer's server and the trainer, or one of them.

Each is a process of its own. When one of them ends, so does the other: whoever runs the worker starts it again. When
this process ends, even by kill -9, so do they.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from typing import Annotated, Literal

import structlog
import typer

from app import logs
from app.artifacts import keep_private
from app.db import migrations
from app.db.engine import open_database, told_to_operator
from app.settings import Settings
from models.errors import ConfigError
from worker.process import refusing_in_one_sentence

Part = Literal["explain", "train"]
MODULES: dict[Part, str] = {"explain": "worker.explain_server", "train": "worker.trainer"}
STOP_SECONDS = 60.0
WAIT_SECONDS = 2.0
logger = structlog.get_logger("recourse.worker")


def run(only: Annotated[Part | None, typer.Option(help="Do only this; by default both.")] = None) -> None:
    """Explain and train for an API that runs elsewhere."""
    with refusing_in_one_sentence():
        settings = Settings()
        logs.configure(settings)
        keep_private(settings)
        wait_for_tables(settings)
    if only is not None:
        os.execv(sys.executable, [sys.executable, "-m", MODULES[only]])
    raise SystemExit(supervise([[sys.executable, "-m", module, "--with-parent"] for module in MODULES.values()]))


def wait_for_tables(settings: Settings) -> None:
    """Return when the database is there and migrated; say once what is waited for."""
    told = ""
    with closing(open_database(settings.database, pool_size=1)) as database:
        while True:
            try:
                with told_to_operator(database):
                    behind = migrations.is_behind(database)
                reason = "the database has not the tables of this release: run `recourse migrate`"
            except ConfigError as error:
                behind, reason = True, str(error)
            if not behind:
                return
            if reason != told:
                logger.warning("waiting", reason=reason)
                told = reason
            time.sleep(WAIT_SECONDS)


def supervise(commands: list[list[str]]) -> int:
    """Run the parts until one ends or a signal comes; then end them all. The exit code of the first to end."""
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stopped.append(number))
    children = [subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) for command in commands]
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
