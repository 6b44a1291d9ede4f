"""Analysts, keys that expire and show their last use, tenants that are disabled, the secret's check value

Which key made a job or a data set was not recorded. So each client key that may have trained becomes an analyst's: one
that works, and is older than the last data set or job of its tenant. Keys of tenants without any stay clients.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

from app.db.tables import BIG_ID, UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

KNOWN = "ck_api_keys_role_known"
MAY_HAVE_TRAINED = """
UPDATE api_keys SET role = 'analyst' WHERE role = 'client' AND revoked_at IS NULL AND (
    EXISTS (SELECT 1 FROM jobs WHERE jobs.tenant_id = api_keys.tenant_id AND jobs.created_at >= api_keys.created_at)
    OR EXISTS (
        SELECT 1 FROM datasets WHERE datasets.tenant_id = api_keys.tenant_id
        AND datasets.created_at >= api_keys.created_at
    )
)
"""


def upgrade() -> None:
    with op.batch_alter_table("api_keys") as table:
        table.add_column(sa.Column("expires_at", UtcDateTime(), nullable=True))
        table.add_column(sa.Column("last_used_at", UtcDateTime(), nullable=True))
        table.drop_constraint(op.f(KNOWN), type_="check")
        table.create_check_constraint(op.f(KNOWN), "role IN ('admin', 'analyst', 'client', 'viewer')")
    op.add_column("tenants", sa.Column("disabled_at", UtcDateTime(), nullable=True))
    op.create_table(
        "secret_check",
        sa.Column("id", BIG_ID, nullable=False, autoincrement=False),
        sa.Column("value", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_secret_check")),
    )
    op.execute(MAY_HAVE_TRAINED)


def downgrade() -> None:
    op.drop_table("secret_check")
    op.drop_column("tenants", "disabled_at")
    op.execute("UPDATE api_keys SET role = 'client' WHERE role = 'analyst'")
    with op.batch_alter_table("api_keys") as table:
        table.drop_constraint(op.f(KNOWN), type_="check")
        table.create_check_constraint(op.f(KNOWN), "role IN ('admin', 'client', 'viewer')")
        table.drop_column("last_used_at")
        table.drop_column("expires_at")
