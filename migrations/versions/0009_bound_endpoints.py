"""Endpoints that the operator binds to tenants, and reservations that go beside a tenant's

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

from app.db.tables import BIG_ID, DOCUMENT

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

BESIDE_ONLY = sa.text("beside IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "bound_endpoints",
        sa.Column("tenant_id", BIG_ID, primary_key=True, autoincrement=False),
        sa.Column("ensemble_id", BIG_ID, primary_key=True, autoincrement=False),
        sa.Column("url", sa.String(500), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("tenants", DOCUMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "ensemble_id"],
            ["ensembles.tenant_id", "ensembles.id"],
            name=op.f("fk_bound_endpoints_tenant_id_ensemble_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "ensemble_id", name=op.f("pk_bound_endpoints")),
        sa.UniqueConstraint("url", name=op.f("uq_bound_endpoints_url")),
    )
    op.create_index("ix_bound_endpoints_host", "bound_endpoints", ["host"])
    op.add_column("reservations", sa.Column("beside", sa.Uuid(), nullable=True))
    op.create_index(
        "ix_reservations_beside",
        "reservations",
        ["beside"],
        sqlite_where=BESIDE_ONLY,
        postgresql_where=BESIDE_ONLY,
    )


def downgrade() -> None:
    """The limits on endpoints stay as budgets of the operator's tenant, which nothing asks any more."""
    op.drop_index("ix_reservations_beside", "reservations")
    op.drop_column("reservations", "beside")
    op.drop_table("bound_endpoints")
