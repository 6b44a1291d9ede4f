"""Tenants, ensembles, budgets and the ledger

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

from app.db.tables import BIG_ID, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

OPEN_ONLY = sa.text("state = 'open'")


def upgrade() -> None:
    create_tenants_and_ensembles()
    create_budgets()
    create_reservations()
    create_entries()
    protect_entries()


def downgrade() -> None:
    for table in ("ledger_entries", "reservations", "accounts", "budgets", "ensembles", "tenants"):
        op.drop_table(table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_ledger_change()")


def create_tenants_and_ensembles() -> None:
    op.create_table(
        "tenants",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenants")),
        sa.UniqueConstraint("name", name=op.f("uq_tenants_name")),
    )
    op.create_table(
        "ensembles",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("version", sa.String(100), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ensembles")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_ensembles_tenant_id")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("uq_ensembles_tenant_id_name")),
        sa.UniqueConstraint("tenant_id", "id", name=op.f("uq_ensembles_tenant_id_id")),
    )


def create_budgets() -> None:
    op.create_table(
        "budgets",
        sa.Column("tenant_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("ensemble_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("period", sa.String(10), nullable=False),
        sa.Column("query_limit", BIG_ID, nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "ensemble_id", name=op.f("pk_budgets")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "ensemble_id"],
            ["ensembles.tenant_id", "ensembles.id"],
            name=op.f("fk_budgets_tenant_id_ensemble_id"),
        ),
        sa.CheckConstraint("query_limit >= 0", name=op.f("ck_budgets_limit_not_negative")),
        sa.CheckConstraint("period IN ('none', 'day', 'month')", name=op.f("ck_budgets_period_known")),
    )
    op.create_table(
        "accounts",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("ensemble_id", BIG_ID, nullable=False),
        sa.Column("period", sa.String(10), nullable=False),
        sa.Column("period_key", sa.String(10), nullable=False),
        sa.Column("query_limit", BIG_ID, nullable=False),
        sa.Column("ceiling", BIG_ID, nullable=False),
        sa.Column("used", BIG_ID, nullable=False),
        sa.Column("reserved", BIG_ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accounts")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "ensemble_id"],
            ["budgets.tenant_id", "budgets.ensemble_id"],
            name=op.f("fk_accounts_tenant_id_ensemble_id"),
        ),
        sa.UniqueConstraint(
            "tenant_id", "ensemble_id", "period_key", name=op.f("uq_accounts_tenant_id_ensemble_id_period_key")
        ),
        sa.UniqueConstraint("tenant_id", "id", name=op.f("uq_accounts_tenant_id_id")),
        sa.CheckConstraint("used >= 0 AND reserved >= 0 AND query_limit >= 0", name=op.f("ck_accounts_not_negative")),
        sa.CheckConstraint(
            "used + reserved <= ceiling AND query_limit <= ceiling", name=op.f("ck_accounts_within_ceiling")
        ),
    )


def create_reservations() -> None:
    op.create_table(
        "reservations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("account_id", BIG_ID, nullable=False),
        sa.Column("amount", BIG_ID, nullable=False),
        sa.Column("dispatched", BIG_ID, nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("fence", BIG_ID, nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("closed_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservations")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "account_id"],
            ["accounts.tenant_id", "accounts.id"],
            name=op.f("fk_reservations_tenant_id_account_id"),
        ),
        sa.CheckConstraint(
            "dispatched >= 0 AND dispatched <= amount AND amount > 0",
            name=op.f("ck_reservations_dispatched_within_amount"),
        ),
        sa.CheckConstraint("state IN ('open', 'settled', 'expired')", name=op.f("ck_reservations_state_known")),
    )
    op.create_index(
        "ix_reservations_open", "reservations", ["account_id"], sqlite_where=OPEN_ONLY, postgresql_where=OPEN_ONLY
    )


def create_entries() -> None:
    op.create_table(
        "ledger_entries",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("account_id", BIG_ID, nullable=False),
        sa.Column("reservation_id", sa.Uuid(), nullable=True),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("query_limit", BIG_ID, nullable=False),
        sa.Column("reserved", BIG_ID, nullable=False),
        sa.Column("dispatched", BIG_ID, nullable=False),
        sa.Column("used", BIG_ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_entries")),
        sa.CheckConstraint(
            "kind IN ('open', 'limit', 'reserve', 'dispatch', 'settle', 'expire')",
            name=op.f("ck_ledger_entries_kind_known"),
        ),
    )
    op.create_index("ix_ledger_entries_account", "ledger_entries", ["account_id", "at"])


def protect_entries() -> None:
    """Append-only, whoever holds the connection."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION refuse_ledger_change() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$"
        )
        op.execute(
            "CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change()"
        )
    else:
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER ledger_entries_no_{change.lower()} BEFORE {change} ON ledger_entries "
                "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
            )
