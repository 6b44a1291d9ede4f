"""Sessions that were signed out of, so that a copied cookie opens nothing

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

from app.db.tables import BIG_ID, UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ended_sessions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", BIG_ID, nullable=False),
        sa.Column("until", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ended_sessions")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_ended_sessions_tenant_id")),
    )
    op.create_index("ix_ended_sessions_until", "ended_sessions", ["until"])


def downgrade() -> None:
    op.drop_table("ended_sessions")
