"""What an upload was told of its columns

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

from app.db.tables import DOCUMENT

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("datasets", sa.Column("notices", DOCUMENT, nullable=True))


def downgrade() -> None:
    op.drop_column("datasets", "notices")
