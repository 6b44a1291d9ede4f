"""What users may rely on is in tests/public_surface.txt: calls of the API, the command line, the client, the settings.

A test fails where it changes. If that is meant, write the file again and say so in CHANGELOG.md:
RECOURSE_WRITE_SURFACE=1 pytest tests/test_public_surface.py
"""

import inspect
import os
from collections.abc import Iterator
from contextlib import closing
from difflib import unified_diff
from pathlib import Path

import typer
from pydantic import SecretStr
from typer.core import TyperGroup

import recourse_client
from app import cli
from app.db import migrations
from app.db.engine import open_database
from app.main import create_app
from app.settings import Settings
from tests.fakes.service import Bell, SilentExplainer

FILE = Path(__file__).with_name("public_surface.txt")


def test_the_public_surface_is_as_it_was_promised(tmp_path: Path) -> None:
    found = sorted({*_calls(tmp_path), *_commands(), *_client_names(), *_settings()})
    if os.environ.get("RECOURSE_WRITE_SURFACE"):
        FILE.write_text("\n".join(found) + "\n", encoding="utf-8")
    promised = FILE.read_text(encoding="utf-8").splitlines()
    changes = list(unified_diff(promised, found, "promised", "found", n=0, lineterm=""))
    assert not changes, "\n".join(["the public surface changed:", *changes])


def _calls(folder: Path) -> Iterator[str]:
    """http METHOD /path"""
    url = f"sqlite:///{folder / 'recourse.db'}"
    with closing(open_database(url)) as database:
        migrations.upgrade(database)
        settings = Settings(var_dir=folder, database_url=SecretStr(url))
        document = create_app(settings, database, SilentExplainer(), Bell()).openapi()
    for path, calls in document["paths"].items():
        yield from (f"http {method.upper()} {path}" for method in calls)


def _commands() -> Iterator[str]:
    """cli VERB ARGUMENT or --option"""
    group = typer.main.get_command(cli.app)
    assert isinstance(group, TyperGroup)
    assert set(group.commands) == set(cli.COMMANDS)
    for name in group.commands:
        yield from _options(name, cli.load_command(name))


def _options(name: str, command: object) -> Iterator[str]:
    """Of a command that click made, whichever click that is: typer may have one of its own."""
    yield f"cli {name}"
    for verb, inner in getattr(command, "commands", {}).items():
        yield from _options(f"{name} {verb}", inner)
    for option in getattr(command, "params", ()):
        yield from (f"cli {name} {shown}" for shown in (*option.opts, *option.secondary_opts))


def _client_names() -> Iterator[str]:
    """client NAME and, of classes with calls, NAME.call"""
    for name, found in vars(recourse_client).items():
        if name.startswith("_") or inspect.ismodule(found):
            continue
        yield f"client {name}"
        if inspect.isclass(found) and name.endswith(("Client", "Recourse")):
            yield from (f"client {name}.{call}" for call in dir(found) if not call.startswith("_"))


def _settings() -> Iterator[str]:
    yield from (f"setting RECOURSE_{name.upper()}" for name in Settings.model_fields)
