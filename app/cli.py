"""`recourse`, the command line: mounts the commands, and turns every error of the caller's into one sentence.

Nothing here imports torch, pandas or SQLAlchemy: the plain install has no torch, and help must come at once. A command
imports its work when it runs.
"""

import errno
from collections.abc import Sequence
from importlib import import_module

import typer

from app.commands.console import complain
from app.commands.data import data
from app.commands.demo import demo
from app.commands.evaluate import evaluate
from app.commands.explain import explain
from app.commands.serve import serve
from app.commands.train import train
from models.errors import RecourseError

BAD_REQUEST = 2
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
WORKER_EXTRA = frozenset(
    {
        "catboost",
        "lassonet",
        "pytorch_tabnet",
        "safetensors",
        "scipy",
        "sklearn",
        "skops",
        "threadpoolctl",
        "torch",
        "torchdiffeq",
        "xgboost",
    }
)
"""What `recourse-service[worker]` adds to the plain install, by the names that Python imports."""

app = typer.Typer(
    name="recourse",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Counterfactual explanations that hold across many models, within a query budget.",
)
app.command()(train)
app.command()(explain)
app.command()(evaluate)
app.command()(data)
app.command()(serve)
app.command()(demo)

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command(context_settings=_PASS_ON, add_help_option=False)
def budget(context: typer.Context) -> None:
    """Query budgets and their ledger: check, show, set, export, expire."""
    _pass_on(context)


@app.command(context_settings=_PASS_ON, add_help_option=False)
def migrate(context: typer.Context) -> None:
    """Bring the database to the newest revision."""
    _pass_on(context)


@app.command(context_settings=_PASS_ON, add_help_option=False)
def worker(context: typer.Context) -> None:
    """Explain and train for an API that runs elsewhere."""
    _pass_on(context)


@app.command(context_settings=_PASS_ON, add_help_option=False)
def health(context: typer.Context) -> None:
    """Whether the API or the worker on this machine is ready."""
    _pass_on(context)


@app.command(context_settings=_PASS_ON, add_help_option=False)
def tenant(context: typer.Context) -> None:
    """Tenants, lenders that share a service: add."""
    _pass_on(context)


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit code 0: done; 2: the request cannot be answered as it is, and stderr says why in one sentence."""
    try:
        app(args=arguments, prog_name="recourse")
    except RecourseError as error:
        complain(str(error))
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        complain(f"The output could not be written whole: {error.strerror}; make room and run the command again.")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in WORKER_EXTRA:
            raise
        complain(f"This command needs {missing}, which is not installed; install 'recourse-service[worker]'.")
    raise SystemExit(BAD_REQUEST)


def _pass_on(context: typer.Context) -> None:
    """Run the commands of the file of that name with the rest of the line; their errors end up in `main`."""
    commands: typer.Typer = import_module(f"app.commands.{context.info_name}").app
    commands(args=context.args, prog_name=context.command_path)
