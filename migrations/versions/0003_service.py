"""Keys, data sets, jobs, models, explanations, and what an ensemble is

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

from app.db.tables import BIG_ID, DOCUMENT, UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

UNFINISHED_ONLY = sa.text("state IN ('queued', 'running')")
ENSEMBLE_DOCUMENTS = ("members", "classes", "schema", "endpoints")


def upgrade() -> None:
    create_api_keys()
    create_datasets()
    create_idempotency()
    create_jobs()
    create_models()
    create_job_events()
    create_model_versions()
    create_explanations()
    describe_ensembles()


def downgrade() -> None:
    for table in (
        "explanations",
        "model_versions",
        "job_events",
        "models",
        "jobs",
        "idempotency",
        "datasets",
        "api_keys",
    ):
        op.drop_table(table)
    for column in ("kind", *ENSEMBLE_DOCUMENTS, "credentials"):
        op.drop_column("ensembles", column)


def create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("prefix", sa.String(8), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.CheckConstraint("role IN ('admin', 'client', 'viewer')", name=op.f("ck_api_keys_role_known")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_api_keys_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_keys_digest")),
    )
    op.create_index("ix_api_keys_page", "api_keys", ["tenant_id", "created_at", "id"])


def create_datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("rows", BIG_ID, nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("schema", DOCUMENT, nullable=False),
        sa.Column("class_counts", DOCUMENT, nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_datasets_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
    )
    op.create_index("ix_datasets_page", "datasets", ["tenant_id", "created_at", "id"])


def create_idempotency() -> None:
    op.create_table(
        "idempotency",
        sa.Column("tenant_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("route", sa.String(100), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("body_digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("status", BIG_ID, nullable=True),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("state IN ('open', 'done')", name=op.f("ck_idempotency_state_known")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_idempotency_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "route", "key", name=op.f("pk_idempotency")),
    )
    op.create_index("ix_idempotency_created_at", "idempotency", ["created_at"])


def create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("model_name", sa.String(100), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("request", DOCUMENT, nullable=False),
        sa.Column("fence", BIG_ID, nullable=False),
        sa.Column("lease_until", UtcDateTime(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("progress", DOCUMENT, nullable=True),
        sa.Column("attempts", BIG_ID, nullable=False),
        sa.Column("reservation_id", sa.Uuid(), nullable=True),
        sa.Column("checkpoint", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("model_version_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'done', 'failed', 'cancelled')", name=op.f("ck_jobs_state_known")
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_jobs_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_page", "jobs", ["tenant_id", "created_at", "id"])
    op.create_index(
        "ix_jobs_unfinished", "jobs", ["created_at"], sqlite_where=UNFINISHED_ONLY, postgresql_where=UNFINISHED_ONLY
    )


def create_models() -> None:
    op.create_table(
        "models",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("active_version_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_models_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
        sa.UniqueConstraint("tenant_id", "id", name=op.f("uq_models_tenant_id_id")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("uq_models_tenant_id_name")),
    )


def create_job_events() -> None:
    op.create_table(
        "job_events",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("payload", DOCUMENT, nullable=False),
        sa.CheckConstraint("kind IN ('state', 'progress', 'log')", name=op.f("ck_job_events_kind_known")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_events_job_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_events")),
    )
    op.create_index("ix_job_events_job", "job_events", ["job_id", "id"])


def create_model_versions() -> None:
    op.create_table(
        "model_versions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("model_id", sa.Uuid(), nullable=False),
        sa.Column("number", BIG_ID, nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("ensemble_id", BIG_ID, nullable=False),
        sa.Column("ensemble_version", sa.String(100), nullable=False),
        sa.Column("schema", DOCUMENT, nullable=False),
        sa.Column("classes", DOCUMENT, nullable=False),
        sa.Column("metrics", DOCUMENT, nullable=True),
        sa.Column("frontier", DOCUMENT, nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_model_versions_number_positive")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_model_versions_job_id")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "ensemble_id"],
            ["ensembles.tenant_id", "ensembles.id"],
            name=op.f("fk_model_versions_tenant_id_ensemble_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "model_id"],
            ["models.tenant_id", "models.id"],
            name=op.f("fk_model_versions_tenant_id_model_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_versions")),
        sa.UniqueConstraint("job_id", name=op.f("uq_model_versions_job_id")),
        sa.UniqueConstraint("model_id", "number", name=op.f("uq_model_versions_model_id_number")),
        sa.UniqueConstraint("tenant_id", "id", name=op.f("uq_model_versions_tenant_id_id")),
    )


def create_explanations() -> None:
    op.create_table(
        "explanations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("model_version_id", sa.Uuid(), nullable=False),
        sa.Column("request_id", sa.String(100), nullable=False),
        sa.Column("position", BIG_ID, nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("record", DOCUMENT, nullable=False),
        sa.Column("order", DOCUMENT, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("answer", DOCUMENT, nullable=False),
        sa.Column("queries", BIG_ID, nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "model_version_id"],
            ["model_versions.tenant_id", "model_versions.id"],
            name=op.f("fk_explanations_tenant_id_model_version_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_explanations")),
    )
    op.create_index("ix_explanations_page", "explanations", ["tenant_id", "created_at", "id"])


def describe_ensembles() -> None:
    """The check is part of its column: SQLite can add one in no other way without copying the table."""
    op.execute(
        "ALTER TABLE ensembles ADD COLUMN kind VARCHAR(10) DEFAULT 'local' NOT NULL "
        "CONSTRAINT ck_ensembles_kind_known CHECK (kind IN ('local', 'remote'))"
    )
    for column in ENSEMBLE_DOCUMENTS:
        op.add_column("ensembles", sa.Column(column, DOCUMENT, nullable=True))
    op.add_column("ensembles", sa.Column("credentials", sa.Text(), nullable=True))
