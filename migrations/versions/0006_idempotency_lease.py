"""Until when the process that answers a request under an idempotency key counts as alive

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

from app.db.tables import UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("idempotency", sa.Column("lease_until", UtcDateTime(), nullable=True))


def downgrade() -> None:
    op.drop_column("idempotency", "lease_until")
