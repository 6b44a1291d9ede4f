"""`recourse budget`: what is left, and whether the books are right."""

import getpass
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from app.auth.keyring import open_keyring
from app.auth.queries import find_tenant
from app.commands.operate import opened
from app.db.engine import Database, allow_time
from app.db.ledger_tables import Period
from app.db.tables import utc_now
from app.ensembles import directory
from app.errors import NotFoundError, UnknownBudgetError
from app.ledger.audit import audit_ledger, ledger_csv
from app.ledger.balance import MOST_MAKER, MOST_REASON, Correction
from app.ledger.chain import ChainKey
from app.ledger.chain_check import ChainEnd, anchor_budget
from app.ledger.ledger import Ledger

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Query budgets and their ledger.")


NOTED = re.compile(r"account (\d+): number (\d+), MAC ([0-9a-f]*)")
Reason = Annotated[str, typer.Option(help="Why; it is kept in the ledger.")]


@contextmanager
def opened_ledger() -> Iterator[tuple[Database, ChainKey, Ledger]]:
    """The database, and its ledger with the secret of these settings."""
    with opened() as (settings, database):
        key = ChainKey(open_keyring(settings, database).ledger_secret)
        yield database, key, Ledger(database, key)


@app.command()
def check(
    noted: Annotated[
        Path | None, typer.Option(help="What an earlier check printed: each chain must still have what it had then.")
    ] = None,
) -> None:
    """Prove that the sums equal the rows and the chains hold; exit 1 and name each difference if they do not.

    Note what it prints outside the database: whoever owns that can put an older state back.
    """
    earlier = NOTED.findall("" if noted is None else noted.read_text(encoding="utf-8"))
    with opened_ledger() as (database, key, _):
        found = audit_ledger(database, key, [ChainEnd(int(one), int(number), mac) for one, number, mac in earlier])
    for end in found.chains:
        typer.echo(f"account {end.account_id}: number {end.number}, MAC {end.mac}; it holds from entry {end.since} on")
    for contradiction in found.contradictions:
        typer.echo(contradiction)
    if found.contradictions:
        raise typer.Exit(1)
    typer.echo("The ledger's sums equal the rows, and its chains hold.")


@app.command()
def correct(
    tenant: str,
    ensemble: str,
    queries: Annotated[int, typer.Option(help="Below 0 gives used queries back, above 0 adds some.")],
    reason: Reason,
    reverses: Annotated[int | None, typer.Option(help="The entry of the ledger that this takes back.")] = None,
) -> None:
    """Correct what is used in the present period by an entry of its own; no entry is ever changed."""
    with opened_ledger() as (database, _, ledger):
        ids, correction = _ids(database, tenant, ensemble), Correction(queries, reason, _operator(), reverses)
        with database.writing() as connection:
            balance = ledger.correct(connection, *ids, correction)
    typer.echo(f"{balance.used} queries used in period {balance.period_key}, {balance.remaining} left")


@app.command("begin-chain")
def begin_chain(tenant: str, ensemble: str, reason: Reason) -> None:
    """Begin a new chain over a budget's ledger as it is now: after the secret was lost, or an audit has ended.

    What is wrong with the old chain can no longer be shown afterwards.
    """
    if not 0 < len(reason) <= MOST_REASON:
        raise typer.BadParameter(f"a reason has 1 to {MOST_REASON} characters", param_hint="--reason")
    with opened_ledger() as (database, key, _), database.writing() as connection:
        allow_time(connection)
        count = anchor_budget(connection, key, *_ids(database, tenant, ensemble), utc_now(), reason, _operator())
    if not count:
        raise UnknownBudgetError(f"{tenant!r} has set no budget for {ensemble!r}: set a limit first")
    typer.echo(f"{count} accounts have a new chain; what was there before it is covered as it is")


@app.command()
def show(tenant: str, ensemble: str) -> None:
    """Print the limit and what is used, reserved and left of it."""
    with opened_ledger() as (database, _, ledger):
        balance = ledger.balance(*_ids(database, tenant, ensemble))
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
    restart: Annotated[bool, typer.Option("--restart", help="Let another period start from zero.")] = False,
) -> None:
    """Set the limit; below what is used it stops new reservations, and nothing is lost."""
    with opened_ledger() as (database, _, ledger):
        balance = ledger.set_limit(*_ids(database, tenant, ensemble), limit, period, restart)
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
    with opened_ledger() as (_, _, ledger):
        closed = ledger.expire()
    charged, released = sum(s.dispatched for s in closed), sum(s.released for s in closed)
    typer.echo(f"{len(closed)} reservations expired: {charged} queries charged, {released} released")


def _operator() -> str:
    return f"operator {getpass.getuser()}"[:MOST_MAKER]


def _ids(database: Database, tenant: str, ensemble: str) -> tuple[int, int]:
    with database.reading() as connection:
        tenant_id = find_tenant(connection, tenant)
        if tenant_id is None:
            raise NotFoundError(f"there is no tenant {tenant!r}: check the name")
        row = directory.find_ensemble(connection, tenant_id, ensemble)
    if row is None:
        raise NotFoundError(f"tenant {tenant!r} has no ensemble {ensemble!r}: check the name")
    return tenant_id, row.id
