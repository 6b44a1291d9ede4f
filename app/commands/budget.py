"""`recourse budget`: what is left, and whether the books are right. `recourse endpoint`: what holds beside budgets."""

import getpass
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import Connection

from app.auth.keyring import open_keyring
from app.auth.queries import find_tenant, list_tenants
from app.commands.operate import opened
from app.db.engine import Database, allow_time
from app.db.ledger_tables import Period
from app.db.tables import OPERATOR, OPERATOR_NAME, AnyRow, utc_now
from app.ensembles import bindings, directory, service
from app.errors import NotFoundError, UnknownBudgetError
from app.fields import NAME_PATTERN
from app.ledger.audit import audit_ledger, ledger_csv
from app.ledger.balance import MOST_MAKER, MOST_REASON, Correction
from app.ledger.chain import ChainKey
from app.ledger.chain_check import ChainEnd, anchor_budget
from app.ledger.ledger import Ledger
from models.errors import ConfigError

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Query budgets and their ledger.")
endpoints = typer.Typer(add_completion=False, no_args_is_help=True)

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


@endpoints.callback()
def endpoint() -> None:
    """Endpoints of the lender's models: which tenants may ask them, and limits that all of these share."""


@endpoints.command()
def bind(
    name: Annotated[str, typer.Argument(help="How the binding is called from now on.")],
    url: Annotated[str, typer.Argument(help="A host, a path, or one model: https://host/path/v2/models/loans")],
    tenants: Annotated[list[str], typer.Argument(help="Who may ask it, and nobody else.")],
) -> None:
    """Bind an endpoint to tenants, or change a binding. What else is at its host is closed until it is bound, too."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise typer.BadParameter("use letters, digits, dots, dashes and underscores, 100 at most", param_hint="NAME")
    with opened() as (_, database), database.writing() as connection:
        if OPERATOR_NAME in tenants:
            raise ConfigError(f"{OPERATOR_NAME} asks no endpoint: name lenders, see `recourse tenant list`")
        service.bind_endpoint(connection, name, url, [_tenant(connection, tenant) for tenant in tenants])
        closed = bindings.shut_out(connection)
        names = {row.id: row.name for row in list_tenants(connection, utc_now())}
    typer.echo(f"{name} is bound to {', '.join(sorted(set(tenants)))}")
    for tenant_id, ensemble in closed:
        typer.echo(f"{names[tenant_id]} can no longer ask its ensemble {ensemble}")


@endpoints.command("limit")
def limit_endpoint(
    name: str,
    limit: int,
    period: Annotated[Period | None, typer.Option(help="As it is, if left out.")] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Let another period count anew.")] = False,
) -> None:
    """Limit the queries to a bound endpoint, of all tenants together; each tenant's own budget holds beside it."""
    with opened_ledger() as (database, _, ledger):
        row = _bound(database.read(bindings.list_bound), name)
        balance = ledger.set_limit(OPERATOR, row.ensemble_id, limit, period, restart)
    typer.echo(f"{balance.remaining} of {balance.limit} queries left in period {balance.period_key}")


@endpoints.command("list")
def list_endpoints() -> None:
    """Print every bound endpoint, who may ask it, and what is left of its limit."""
    with opened_ledger() as (database, _, ledger):
        with database.reading() as connection:
            found = bindings.list_bound(connection)
            names = {row.id: row.name for row in list_tenants(connection, utc_now())}
        for row in found:
            left = "no limit"
            if row.query_limit is not None:
                balance = ledger.balance(OPERATOR, row.ensemble_id)
                left = f"{balance.remaining} of {balance.limit} queries left in period {balance.period_key}"
            typer.echo(f"{row.name}: {row.url} for {', '.join(names[one] for one in row.tenants)}; {left}")


@endpoints.command()
def unbind(name: str) -> None:
    """Let everybody ask an endpoint again, without its limit; its ledger stays."""
    with opened() as (_, database), database.writing() as connection:
        bindings.unbind(connection, _bound(bindings.list_bound(connection), name).ensemble_id)
    typer.echo(f"{name} is not bound any more")


def _bound(found: Sequence[AnyRow], name: str) -> AnyRow:
    row = next((row for row in found if row.name == name), None)
    if row is None:
        raise NotFoundError(f"no endpoint is bound as {name!r}: see `recourse endpoint list`")
    return row


def _operator() -> str:
    return f"operator {getpass.getuser()}"[:MOST_MAKER]


def _ids(database: Database, tenant: str, ensemble: str) -> tuple[int, int]:
    with database.reading() as connection:
        tenant_id = _tenant(connection, tenant)
        row = directory.find_ensemble(connection, tenant_id, ensemble)
    if row is None:
        raise NotFoundError(f"tenant {tenant!r} has no ensemble {ensemble!r}: check the name")
    return tenant_id, row.id


def _tenant(connection: Connection, name: str) -> int:
    tenant_id = find_tenant(connection, name)
    if tenant_id is None:
        raise NotFoundError(f"there is no tenant {name!r}: check the name")
    return tenant_id
