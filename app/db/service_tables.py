"""The tables of the service: keys, data sets, jobs, models, explanations. They share the metadata of tables.py.

`models.active_version_id` and `jobs.model_version_id` have no foreign key: the tables would point at each other in a
circle, and the rows that they name are never deleted.
"""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.db.tables import Tables as Tables
from app.db.types import BIG_ID, DOCUMENT, Document, UtcDateTime

UNFINISHED_ONLY = text("state IN ('queued', 'running')")


class Role(StrEnum):
    """What a key may do: a viewer reads; a client also uploads, trains, explains and predicts; an admin does all."""

    VIEWER = "viewer"
    CLIENT = "client"
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
        CheckConstraint("role IN ('admin', 'client', 'viewer')", name="role_known"),
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


class Explanation(Tables):
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
