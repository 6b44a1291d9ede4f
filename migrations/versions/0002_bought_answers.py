"""Answers that were bought, so that none is paid for twice

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

from app.db.tables import BIG_ID, UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bought_answers",
        sa.Column("tenant_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("ensemble_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("version", sa.String(100), nullable=False),
        sa.Column("record_key", sa.LargeBinary(32), nullable=False),
        sa.Column("probabilities", sa.LargeBinary(), nullable=False),
        sa.Column("members_answered", BIG_ID, nullable=False),
        sa.Column("bought_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "ensemble_id", "version", "record_key", name=op.f("pk_bought_answers")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "ensemble_id"],
            ["ensembles.tenant_id", "ensembles.id"],
            name=op.f("fk_bought_answers_tenant_id_ensemble_id"),
        ),
    )


def downgrade() -> None:
    op.drop_table("bought_answers")
