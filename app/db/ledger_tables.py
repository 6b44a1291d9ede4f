"""The tables of ensembles, budgets, reservations, ledger entries, bought answers and bound endpoints, each a tenant's.

The migrations must match this file and tables.py, and a test compares them.
"""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.db.tables import BIG_ID, DOCUMENT, Document, Tables, UtcDateTime

OPEN_ONLY = text("state = 'open'")
BESIDE_ONLY = text("beside IS NOT NULL")


class Period(StrEnum):
    """How often a budget starts from zero."""

    NONE = "none"
    DAY = "day"
    MONTH = "month"


class State(StrEnum):
    """The life of a reservation: open, then closed once, by its owner or by expiry."""

    OPEN = "open"
    SETTLED = "settled"
    EXPIRED = "expired"


class EntryType(StrEnum):
    """What a ledger entry records."""

    OPEN = "open"
    LIMIT = "limit"
    RESERVE = "reserve"
    DISPATCH = "dispatch"
    SETTLE = "settle"
    EXPIRE = "expire"
    CORRECT = "correct"
    ANCHOR = "anchor"


class EnsembleRow(Tables):
    """A black-box ensemble of a tenant; `version` names its members and its schema, hence the answers that it gives."""

    __tablename__ = "ensembles"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name"),
        UniqueConstraint("tenant_id", "id"),
        CheckConstraint("kind IN ('local', 'remote')", name="kind_known"),
    )

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID, ForeignKey("tenants.id"))
    name: Mapped[str] = mapped_column(String(100))
    version: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    kind: Mapped[str] = mapped_column(String(10), server_default="local")
    members: Mapped[Document | None] = mapped_column(DOCUMENT)
    classes: Mapped[Document | None] = mapped_column(DOCUMENT)
    schema: Mapped[Document | None] = mapped_column(DOCUMENT)
    endpoints: Mapped[Document | None] = mapped_column(DOCUMENT)
    """Where a remote ensemble is, without its credentials."""
    credentials: Mapped[str | None] = mapped_column(Text)
    """The credential of each endpoint, encrypted; see app/auth/keyring.py."""


class BoundEndpoint(Tables):
    """An endpoint that only some tenants may ask; its limit is a budget of the operator's (ensembles/bindings.py)."""

    __tablename__ = "bound_endpoints"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "ensemble_id"], ["ensembles.tenant_id", "ensembles.id"]),
        UniqueConstraint("url"),
        Index("ix_bound_endpoints_host", "host"),
    )

    tenant_id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=False)
    ensemble_id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=False)
    url: Mapped[str] = mapped_column(String(500))
    host: Mapped[str] = mapped_column(String(255))
    tenants: Mapped[Document] = mapped_column(DOCUMENT)
    """The ids of those who may ask it."""


class Budget(Tables):
    """The limit that a tenant sets on an ensemble, and how often it starts from zero."""

    __tablename__ = "budgets"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "ensemble_id"], ["ensembles.tenant_id", "ensembles.id"]),
        CheckConstraint("query_limit >= 0", name="limit_not_negative"),
        CheckConstraint("period IN ('none', 'day', 'month')", name="period_known"),
    )

    tenant_id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=False)
    ensemble_id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=False)
    period: Mapped[str] = mapped_column(String(10))
    query_limit: Mapped[int] = mapped_column(BIG_ID)
    accounts_seal: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    """Which accounts there are; see app/ledger/chain.py."""
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Account(Tables):
    """The counters of one budget in one period: the row that every reservation has to pass.

    `ceiling` is what the database itself enforces. It equals the limit, save after the limit was lowered below what was
    already promised: then it stays at what was promised, so that no open reservation is broken.
    """

    __tablename__ = "accounts"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "ensemble_id"], ["budgets.tenant_id", "budgets.ensemble_id"]),
        UniqueConstraint("tenant_id", "ensemble_id", "period_key"),
        UniqueConstraint("tenant_id", "id"),
        CheckConstraint("used >= 0 AND reserved >= 0 AND query_limit >= 0", name="not_negative"),
        CheckConstraint("used + reserved <= ceiling AND query_limit <= ceiling", name="within_ceiling"),
    )

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID)
    ensemble_id: Mapped[int] = mapped_column(BIG_ID)
    period: Mapped[str] = mapped_column(String(10))
    period_key: Mapped[str] = mapped_column(String(10))
    query_limit: Mapped[int] = mapped_column(BIG_ID)
    ceiling: Mapped[int] = mapped_column(BIG_ID)
    used: Mapped[int] = mapped_column(BIG_ID)
    reserved: Mapped[int] = mapped_column(BIG_ID)
    chain_number: Mapped[int] = mapped_column(BIG_ID, server_default="0")
    chain_head: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    """Behind the newest entry; None before the chain has begun."""
    chain_key: Mapped[str | None] = mapped_column(String(16))
    """The id of the key that the chain began with."""


class ReservationRow(Tables):
    """Queries promised to one request; `fence` names its present owner."""

    __tablename__ = "reservations"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "account_id"], ["accounts.tenant_id", "accounts.id"]),
        CheckConstraint("dispatched >= 0 AND dispatched <= amount AND amount > 0", name="dispatched_within_amount"),
        CheckConstraint("state IN ('open', 'settled', 'expired')", name="state_known"),
        # Not on expires_at: each dispatch moves it, and a dispatch should touch no index.
        Index("ix_reservations_open", "account_id", sqlite_where=OPEN_ONLY, postgresql_where=OPEN_ONLY),
        Index("ix_reservations_beside", "beside", sqlite_where=BESIDE_ONLY, postgresql_where=BESIDE_ONLY),
    )

    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID)
    account_id: Mapped[int] = mapped_column(BIG_ID)
    amount: Mapped[int] = mapped_column(BIG_ID)
    dispatched: Mapped[int] = mapped_column(BIG_ID)
    state: Mapped[str] = mapped_column(String(10))
    fence: Mapped[int] = mapped_column(BIG_ID)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    closed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    beside: Mapped[UUID | None] = mapped_column(Uuid)
    """The tenant's reservation that this one, of an endpoint's limit, goes with."""


class LedgerEntry(Tables):
    """One line of the ledger: what it added to each counter. Triggers refuse to change or delete it.

    No foreign keys: they would slow down the busiest path, the step that writes an entry has just read the rows that it
    names, and `recourse budget check` looks for orphans.
    """

    __tablename__ = "ledger_entries"
    __table_args__ = (
        CheckConstraint(f"kind IN ({', '.join(repr(kind.value) for kind in EntryType)})", name="kind_known"),
        Index("ix_ledger_entries_account", "account_id", "at"),
    )

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID)
    account_id: Mapped[int] = mapped_column(BIG_ID)
    reservation_id: Mapped[UUID | None] = mapped_column(Uuid)
    kind: Mapped[str] = mapped_column(String(10))
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    query_limit: Mapped[int] = mapped_column(BIG_ID)
    reserved: Mapped[int] = mapped_column(BIG_ID)
    dispatched: Mapped[int] = mapped_column(BIG_ID)
    used: Mapped[int] = mapped_column(BIG_ID)
    number: Mapped[int | None] = mapped_column(BIG_ID)
    """Its place in the account's chain; None for what was written before there were chains."""
    mac: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    reason: Mapped[str | None] = mapped_column(String(500))
    made_by: Mapped[str | None] = mapped_column(String(200))
    """Who corrected, and why; others have neither."""
    reverses: Mapped[int | None] = mapped_column(BIG_ID)
    """The entry that a correction takes back."""


class BoughtAnswer(Tables):
    """What an ensemble answered for one record: paid for once, then free. The record itself is kept as a hash only."""

    __tablename__ = "bought_answers"
    __table_args__ = (ForeignKeyConstraint(["tenant_id", "ensemble_id"], ["ensembles.tenant_id", "ensembles.id"]),)

    tenant_id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=False)
    ensemble_id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=False)
    version: Mapped[str] = mapped_column(String(100), primary_key=True)
    record_key: Mapped[bytes] = mapped_column(LargeBinary(32), primary_key=True)
    probabilities: Mapped[bytes] = mapped_column(LargeBinary)
    members_answered: Mapped[int] = mapped_column(BIG_ID)
    bought_at: Mapped[datetime] = mapped_column(UtcDateTime)
