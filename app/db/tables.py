"""The tables of the service: tenants, keys, data sets, jobs, models, explanations; ledger_tables.py has the ledger's.

Column types behave alike on SQLite and on Postgres. `owned` is the one way to read a tenant's rows.

`models.active_version_id` and `jobs.model_version_id` have no foreign key: the tables would point at each other in a
circle, and the rows that they name are never deleted.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias
from uuid import UUID

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ColumnElement,
    DateTime,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    FromClause,
    Index,
    Integer,
    MetaData,
    Row,
    Select,
    String,
    Text,
    UniqueConstraint,
    Uuid,
    select,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator


def utc_now() -> datetime:
    return datetime.now(UTC)


BIG_ID = BigInteger().with_variant(Integer(), "sqlite")
"""A 64-bit key that SQLite, too, counts up by itself."""

DOCUMENT = JSON(none_as_null=True)
"""A JSON document; None is stored as NULL, not as the document `null`."""

Document: TypeAlias = Any
"""The content of a JSON column. The code that writes it knows its form, and checks it when it reads it back."""

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
"""A row whose columns the table names."""


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC: aware on the way in and on the way out, whatever the database keeps."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"the time {value.isoformat()} has no time zone: pass an aware datetime")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Tables(DeclarativeBase):
    """The root of all tables."""

    metadata: ClassVar[MetaData] = MetaData(naming_convention=NAMING)


class Tenant(Tables):
    """A lender."""

    __tablename__ = "tenants"

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    disabled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """From then on none of its keys opens anything."""


OPERATOR, OPERATOR_NAME = 0, "@operator"
"""The operator's own tenant, which no key belongs to: limits on endpoints are its budgets."""


class SecretCheck(Tables):
    """One row: a value that only the secret of the keys gives, to notice another secret by (app/auth/keyring.py)."""

    __tablename__ = "secret_check"

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=False)
    value: Mapped[str] = mapped_column(String(64))


UNFINISHED_ONLY = text("state IN ('queued', 'running')")


class Role(StrEnum):
    """What a key may do; each role may also do all that the one before it may.

    A viewer reads. A client, such as a loan system, also explains, verifies and predicts. An analyst also uploads,
    trains and activates. An admin does all.
    """

    VIEWER = "viewer"
    CLIENT = "client"
    ANALYST = "analyst"
    ADMIN = "admin"


class JobState(StrEnum):
    """The life of a training job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ApiKey(Tables):
    """A key of a tenant; the key itself is not kept, only its keyed digest."""

    __tablename__ = "api_keys"
    __table_args__ = (
        CheckConstraint("role IN ('admin', 'analyst', 'client', 'viewer')", name="role_known"),
        Index("ix_api_keys_page", "tenant_id", "created_at", "id"),
    )

    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID, ForeignKey("tenants.id"))
    name: Mapped[str] = mapped_column(String(100))
    role: Mapped[str] = mapped_column(String(10))
    prefix: Mapped[str] = mapped_column(String(8))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Written once a minute at most; None: never since this was recorded."""


class EndedSession(Tables):
    """A session of the dashboard that was signed out of; `until` it would have ended by itself."""

    __tablename__ = "ended_sessions"
    __table_args__ = (Index("ix_ended_sessions_until", "until"),)

    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID, ForeignKey("tenants.id"))
    until: Mapped[datetime] = mapped_column(UtcDateTime)


class DatasetRow(Tables):
    """An uploaded table; `location` names its file in the artifact store."""

    __tablename__ = "datasets"
    __table_args__ = (Index("ix_datasets_page", "tenant_id", "created_at", "id"),)

    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID, ForeignKey("tenants.id"))
    name: Mapped[str] = mapped_column(String(200))
    location: Mapped[str] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(String(64))
    rows: Mapped[int] = mapped_column(BIG_ID)
    label: Mapped[str | None] = mapped_column(Text)
    schema: Mapped[Document] = mapped_column(DOCUMENT)
    class_counts: Mapped[Document | None] = mapped_column(DOCUMENT)
    notices: Mapped[list[str] | None] = mapped_column(DOCUMENT)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Job(Tables):
    """A training job: the truth, whatever the queue says. Who holds the fence and the lease may write it."""

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint("state IN ('queued', 'running', 'done', 'failed', 'cancelled')", name="state_known"),
        Index("ix_jobs_page", "tenant_id", "created_at", "id"),
        Index("ix_jobs_unfinished", "created_at", sqlite_where=UNFINISHED_ONLY, postgresql_where=UNFINISHED_ONLY),
    )

    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID, ForeignKey("tenants.id"))
    model_name: Mapped[str] = mapped_column(String(100))
    state: Mapped[str] = mapped_column(String(10))
    request: Mapped[Document] = mapped_column(DOCUMENT)
    fence: Mapped[int] = mapped_column(BIG_ID)
    lease_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    worker: Mapped[str | None] = mapped_column(Text)
    cancel_requested: Mapped[bool]
    progress: Mapped[Document | None] = mapped_column(DOCUMENT)
    attempts: Mapped[int] = mapped_column(BIG_ID)
    reservation_id: Mapped[UUID | None] = mapped_column(Uuid)
    checkpoint: Mapped[str | None] = mapped_column(Text)
    error: Mapped[str | None] = mapped_column(Text)
    model_version_id: Mapped[UUID | None] = mapped_column(Uuid)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class JobEvent(Tables):
    """What happened to a job, in order; a stream of events starts again after any id."""

    __tablename__ = "job_events"
    __table_args__ = (
        CheckConstraint("kind IN ('state', 'progress', 'log')", name="kind_known"),
        Index("ix_job_events_job", "job_id", "id"),
    )

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID)
    job_id: Mapped[UUID] = mapped_column(Uuid, ForeignKey("jobs.id"))
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    kind: Mapped[str] = mapped_column(String(10))
    payload: Mapped[Document] = mapped_column(DOCUMENT)


class ModelRow(Tables):
    """A name under which versions are published; the active one answers."""

    __tablename__ = "models"
    __table_args__ = (UniqueConstraint("tenant_id", "name"), UniqueConstraint("tenant_id", "id"))

    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID, ForeignKey("tenants.id"))
    name: Mapped[str] = mapped_column(String(100))
    active_version_id: Mapped[UUID | None] = mapped_column(Uuid)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    policy: Mapped[Document | None] = mapped_column(DOCUMENT)
    """The action policy of all versions; none: each has the one that it was trained with."""


class ModelVersion(Tables):
    """A trained model, never changed; `job_id` is unique, so that a job publishes once, however often it is resumed."""

    __tablename__ = "model_versions"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "model_id"], ["models.tenant_id", "models.id"]),
        ForeignKeyConstraint(["tenant_id", "ensemble_id"], ["ensembles.tenant_id", "ensembles.id"]),
        UniqueConstraint("model_id", "number"),
        UniqueConstraint("tenant_id", "id"),
        CheckConstraint("number >= 1", name="number_positive"),
    )

    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID)
    model_id: Mapped[UUID] = mapped_column(Uuid)
    number: Mapped[int] = mapped_column(BIG_ID)
    job_id: Mapped[UUID] = mapped_column(Uuid, ForeignKey("jobs.id"), unique=True)
    location: Mapped[str] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(String(64))
    ensemble_id: Mapped[int] = mapped_column(BIG_ID)
    ensemble_version: Mapped[str] = mapped_column(String(100))
    schema: Mapped[Document] = mapped_column(DOCUMENT)
    classes: Mapped[Document] = mapped_column(DOCUMENT)
    metrics: Mapped[Document | None] = mapped_column(DOCUMENT)
    frontier: Mapped[Document | None] = mapped_column(DOCUMENT)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ExplanationRow(Tables):
    """The decision record of one explained record: what was asked, what was answered, what it cost."""

    __tablename__ = "explanations"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "model_version_id"], ["model_versions.tenant_id", "model_versions.id"]),
        Index("ix_explanations_page", "tenant_id", "created_at", "id"),
    )

    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    tenant_id: Mapped[int] = mapped_column(BIG_ID)
    model_version_id: Mapped[UUID] = mapped_column(Uuid)
    request_id: Mapped[str] = mapped_column(String(100))
    position: Mapped[int] = mapped_column(BIG_ID)
    target: Mapped[str] = mapped_column(Text)
    record: Mapped[Document] = mapped_column(DOCUMENT)
    order: Mapped[Document] = mapped_column(DOCUMENT)
    status: Mapped[str] = mapped_column(String(20))
    answer: Mapped[Document] = mapped_column(DOCUMENT)
    queries: Mapped[int] = mapped_column(BIG_ID)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Idempotency(Tables):
    """The answer that a key was given, so that a repeated request gets the same one."""

    __tablename__ = "idempotency"
    __table_args__ = (
        CheckConstraint("state IN ('open', 'done')", name="state_known"),
        Index("ix_idempotency_created_at", "created_at"),
    )

    tenant_id: Mapped[int] = mapped_column(BIG_ID, ForeignKey("tenants.id"), primary_key=True, autoincrement=False)
    route: Mapped[str] = mapped_column(String(100), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    body_digest: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(10))
    status: Mapped[int | None] = mapped_column(BIG_ID)
    response: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    lease_until: Mapped[datetime | None] = mapped_column(UtcDateTime)


def owned(table: FromClause, tenant_id: int, *also: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    """The rows of one tenant, whole, and further columns beside them."""
    return select(table, *also).where(table.c.tenant_id == tenant_id)
