"""`recourse tenant` and `recourse key`: lenders that share a service, and what their programs sign in with."""

from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

import typer

from app.artifacts import open_store
from app.auth import queries, service
from app.auth.keyring import open_keyring
from app.commands.operate import opened
from app.db.engine import Database
from app.db.paging import MOST_ITEMS, PageOrder
from app.db.tables import OPERATOR, AnyRow, Role, utc_now
from app.errors import ConflictError, NotFoundError
from app.ledger.chain import ChainKey
from app.ledger.ledger import Ledger
from app.train import jobs
from app.train import service as training

app = typer.Typer(add_completion=False, no_args_is_help=True)
keys = typer.Typer(add_completion=False, no_args_is_help=True)
KeyName = Annotated[str, typer.Argument(help="Its id, or how it begins: rk_3f9a1c07.")]


@app.callback()
def tenant() -> None:
    """Tenants: lenders that share a service, and know nothing of each other."""


@app.command()
def add(name: str) -> None:
    """Make a tenant and print its first admin key, once."""
    with opened() as (settings, database):
        typer.echo(service.add_tenant(database, open_keyring(settings, database), name).text)


@app.command("list")
def list_tenants() -> None:
    """Print every tenant, since when it is here, and how many of its keys work."""
    with opened() as (_, database):
        for row in database.read(queries.list_tenants, utc_now()):
            state = "" if row.disabled_at is None else f"; disabled {_moment(row.disabled_at)}"
            typer.echo(f"{row.name}: since {_moment(row.created_at)}, {row.keys} keys{state}")


@app.command()
def disable(name: str) -> None:
    """Let none of a tenant's keys and sessions open anything, and cancel its trainings; nothing is deleted."""
    with opened() as (settings, database):
        tenant_id = _tenant(database, name)
        with database.writing() as connection:
            queries.disable_tenant(connection, tenant_id, utc_now())
            unfinished = jobs.list_unfinished(connection, tenant_id)
        ledger = Ledger(database, ChainKey(open_keyring(settings, database).ledger_secret))
        parts = database, ledger, open_store(settings)
        for job_id in unfinished:
            training.cancel(*parts, tenant_id, job_id)
    typer.echo(f"{name} is disabled; {len(unfinished)} trainings are cancelled")


@app.command()
def enable(name: str) -> None:
    """Let a disabled tenant's keys work again."""
    with opened() as (_, database), database.writing() as connection:
        queries.disable_tenant(connection, _tenant(database, name), None)
    typer.echo(f"{name} is enabled")


@keys.callback()
def key() -> None:
    """API keys. A running service notices a change within RECOURSE_KEY_CACHE_SECONDS."""


@keys.command()
def make(
    tenant: str,
    name: str,
    role: Annotated[Role, typer.Option(help="What the key may do.")] = Role.CLIENT,
    days: Annotated[int | None, typer.Option(help="It expires after so many days; by default never.", min=1)] = None,
) -> None:
    """Make a key for what NAME says and print it, once."""
    with opened() as (settings, database):
        expires_at = None if days is None else utc_now() + timedelta(days=days)
        keyring, tenant_id = open_keyring(settings, database), _tenant(database, tenant)
        made, _ = service.make_key(database, keyring, tenant_id, name, role, expires_at)
        typer.echo(made.text)


@keys.command("list")
def list_keys(tenant: str) -> None:
    """Print a tenant's keys: how each begins, its role, its last use to the minute, and whether it works."""
    with opened() as (_, database):
        found = database.read(queries.keys_page, _tenant(database, tenant), PageOrder(MOST_ITEMS))
    for row in found.rows:
        used = "never used" if row.last_used_at is None else f"used {_moment(row.last_used_at)}"
        typer.echo(f"rk_{row.prefix}  {row.role:<8} {_state(row):<28} {used:<24} {row.name}  {row.id}")


@keys.command()
def rotate(
    tenant: str,
    key: KeyName,
    grace_hours: Annotated[float, typer.Option(help="How long the old key still works.", min=0)] = 24.0,
) -> None:
    """Print a new key with the same name and role, once; the old one works for the time of grace."""
    with opened() as (settings, database):
        keyring, tenant_id = open_keyring(settings, database), _tenant(database, tenant)
        row = _key(database, tenant_id, key)
        made = service.rotate_key(database, keyring, tenant_id, row.id, timedelta(hours=grace_hours))
        typer.echo(made.text)


@keys.command()
def revoke(tenant: str, key: KeyName) -> None:
    """Revoke a key; the last admin key of a tenant stays."""
    with opened() as (_, database):
        tenant_id = _tenant(database, tenant)
        row = _key(database, tenant_id, key)
        service.revoke_key(database, tenant_id, row.id)
    typer.echo(f"rk_{row.prefix} ({row.name}) is revoked")


@keys.command("accept-new-secret")
def accept_new_secret() -> None:
    """After the secret is lost for good: revoke every key of every tenant, and go on with the secret as it is now."""
    with opened() as (settings, database):
        revoked = service.accept_new_secret(settings, database)
    typer.echo(
        f"{revoked} keys are revoked. The next `recourse serve` lets the admin key in VAR_DIR/admin.key work again for "
        "the default tenant, or makes one; for other tenants run `recourse key make TENANT NAME --role admin`. "
        "Register remote ensembles that need credentials again. The chains over the ledger cannot be checked "
        "with the new secret: run `recourse budget begin-chain TENANT ENSEMBLE` for each budget."
    )


def _tenant(database: Database, name: str) -> int:
    tenant_id = database.read(queries.find_tenant, name)
    if tenant_id in (None, OPERATOR):
        raise NotFoundError(f"there is no tenant {name!r}: see `recourse tenant list`")
    return tenant_id


def _key(database: Database, tenant_id: int, text: str) -> AnyRow:
    try:
        row = database.read(queries.find_key, tenant_id, UUID(text))
        found = [] if row is None else [row]
    except ValueError:
        found = database.read(queries.find_keys_named, tenant_id, text.removeprefix("rk_")[:8])
    if not found:
        raise NotFoundError(f"the tenant has no key {text[:11]!r}: see `recourse key list`")
    if len(found) > 1:
        raise ConflictError(f"{len(found)} keys begin with {text[:11]!r}: name the id, see `recourse key list`")
    return found[0]


def _state(row: AnyRow) -> str:
    if row.revoked_at is not None:
        return f"revoked {_moment(row.revoked_at)}"
    if row.expires_at is None:
        return "works"
    return f"{'expired' if row.expires_at <= utc_now() else 'until'} {_moment(row.expires_at)}"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
