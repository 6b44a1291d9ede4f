"""`recourse tenant`: lenders that share a service, and know nothing of each other."""

from contextlib import closing

import typer

from app.auth.keyring import open_keyring
from app.auth.service import add_tenant
from app.db.engine import open_database
from app.settings import Settings

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Tenants: lenders that share a service.")


@app.callback()
def tenants() -> None:
    """Tenants: lenders that share a service."""


@app.command()
def add(name: str) -> None:
    """Make a tenant and print its first admin key, once."""
    settings = Settings()
    with closing(open_database(settings.database)) as database:
        typer.echo(add_tenant(database, open_keyring(settings), name).text)
