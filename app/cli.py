"""`recourse`, the command line: a group of commands that are imported when they run, and errors as one sentence.

Nothing here imports torch, pandas or SQLAlchemy: help must come at once. The plain install has no torch: a command that
needs it imports it inside its functions, so that its help works there, and a sentence says what is missing.
"""

import errno
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from app.commands.console import complain
from models.errors import RecourseError

BAD_REQUEST = 2
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
WORKER_EXTRA = frozenset(
    {
        "catboost",
        "lassonet",
        "matplotlib",
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

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("train:train", "Train the black boxes, the surrogate and the generator on DATA, and save them."),
    "explain": ("explain:explain", "Explain RECORDS: the nearest records that the black boxes would accept."),
    "evaluate": ("evaluate:evaluate", "Train on DATA and measure the answers for its test records."),
    "data": ("data:data", "Print a built-in data set as CSV, label included, or list the names."),
    "serve": ("serve:serve", "Serve the API. With nothing configured everything runs here."),
    "demo": ("demo:demo", "Serve, train on made-up loans, explain refused applicants, and show where to look."),
    "budget": ("budget:app", "Query budgets and their ledger: check, show, set, correct, export, expire, begin-chain."),
    "endpoint": ("budget:endpoints", "Endpoints of the lender's models: bind them to tenants, limit them."),
    "migrate": ("operate:migrate", "Bring the database to the newest revision."),
    "worker": ("operate:worker", "Explain and train for an API that runs elsewhere."),
    "health": ("operate:health", "Whether the API or the worker on this machine is ready."),
    "tenant": ("tenant:app", "Tenants, lenders that share a service: add, list, disable, enable."),
    "key": ("tenant:keys", "API keys of a tenant: make, list, rotate, revoke."),
}
"""Each command's function or group in app/commands, and its line in `recourse --help`."""


class LazyGroup(TyperGroup):
    """Knows its commands by name and line; the one that runs is imported."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # whatever Typer gives to a group
        lines = {name: TyperCommand(name, help=line) for name, (_, line) in COMMANDS.items()}
        super().__init__(**settings | {"commands": lines})

    def resolve_command(self, *asked: Any) -> Any:  # noqa: ANN401  # Typer does not export its types for this
        name, command, rest = super().resolve_command(*asked)
        return name, command and load_command(command.name or ""), rest


def load_command(name: str) -> Any:  # noqa: ANN401  # a command of Typer's, which does not export the type
    """The command of that name, imported now."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"app.commands.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name)(found)
        found = single
    return get_command(found)


app = typer.Typer(
    name="recourse", cls=LazyGroup, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False
)


@app.callback()
def recourse() -> None:
    """Counterfactual explanations that hold across many models, within a query budget."""


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
