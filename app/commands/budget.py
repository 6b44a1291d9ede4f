"""`recourse budget`: what is left, and whether the books are right."""

from typing import Annotated

import typer

from app.auth import queries
from app.commands.operate import opened
from app.db.engine import Database
from app.db.ledger_tables import Period
from app.ensembles import directory
from app.errors import NotFoundError
from app.ledger.audit import check_ledger as contradictions
from app.ledger.audit import ledger_csv
from app.ledger.ledger import Ledger

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Query budgets and their ledger.")


@app.command()
def check() -> None:
    """Prove that the ledger's sums equal the rows; exit 1 and name each difference if they do not."""
    with opened() as (_, database):
        found = contradictions(database)
    for contradiction in found:
        typer.echo(contradiction)
    if found:
        raise typer.Exit(1)
    typer.echo("The ledger's sums equal the rows.")


@app.command()
def show(tenant: str, ensemble: str) -> None:
    """Print the limit and what is used, reserved and left of it."""
    with opened() as (_, database):
        balance = Ledger(database).balance(*_ids(database, tenant, ensemble))
    until = f" until {balance.period_ends.isoformat()}" if balance.period_ends is not None else ""
    typer.echo(
        f"{balance.remaining} of {balance.limit} queries left in period {balance.period_key}{until}: "
        f"{balance.used} used, {balance.reserved} reserved"
    )


@app.command("set")
def set_limit(
    tenant: str,
    ensemble: str,
    limit: int,
    period: Annotated[Period | None, typer.Option(help="As it is, if left out.")] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Let another period count anew.")] = False,
) -> None:
    """Set the limit; below what is used it stops new reservations, and nothing is lost."""
    with opened() as (_, database):
        balance = Ledger(database).set_limit(*_ids(database, tenant, ensemble), limit, period, restart)
    typer.echo(f"{balance.remaining} of {balance.limit} queries left in period {balance.period_key}")


@app.command()
def export(tenant: str, ensemble: str) -> None:
    """Print the ledger of one ensemble as CSV."""
    with opened() as (_, database):
        for line in ledger_csv(database, *_ids(database, tenant, ensemble)):
            typer.echo(line, nl=False)


@app.command()
def expire() -> None:
    """Close the reservations of crashed processes: charge what they dispatched, release the rest."""
    with opened() as (_, database):
        closed = Ledger(database).expire()
    charged, released = sum(s.dispatched for s in closed), sum(s.released for s in closed)
    typer.echo(f"{len(closed)} reservations expired: {charged} queries charged, {released} released")


def _ids(database: Database, tenant: str, ensemble: str) -> tuple[int, int]:
    with database.reading() as connection:
        tenant_id = queries.find_tenant(connection, tenant)
        if tenant_id is None:
            raise NotFoundError(f"there is no tenant {tenant!r}: check the name")
        row = directory.find_ensemble(connection, tenant_id, ensemble)
    if row is None:
        raise NotFoundError(f"tenant {tenant!r} has no ensemble {ensemble!r}: check the name")
    return tenant_id, row.id
