"""The action policy of a model: it may be replaced without training

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

from app.db.tables import DOCUMENT

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("models", sa.Column("policy", DOCUMENT, nullable=True))


def downgrade() -> None:
    op.drop_column("models", "policy")
