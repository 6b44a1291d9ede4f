"""The chain over the ledger, and corrections

Entries that are there get no MAC: the secret is not the database's. `recourse migrate`, or the first start of the
service, anchors them (app/ledger/audit.py).

Revision ID: 0008
Revises: 0007
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from app.db.tables import BIG_ID

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

KNOWN = "ck_ledger_entries_kind_known"
BEFORE = "'open', 'limit', 'reserve', 'dispatch', 'settle', 'expire'"


def added() -> dict[str, tuple[sa.Column[Any], ...]]:
    return {
        "budgets": (sa.Column("accounts_seal", sa.LargeBinary(32), nullable=True),),
        "accounts": (
            sa.Column("chain_number", BIG_ID, nullable=False, server_default="0"),
            sa.Column("chain_head", sa.LargeBinary(32), nullable=True),
            sa.Column("chain_key", sa.String(16), nullable=True),
        ),
        "ledger_entries": (
            sa.Column("number", BIG_ID, nullable=True),
            sa.Column("mac", sa.LargeBinary(32), nullable=True),
            sa.Column("reason", sa.String(500), nullable=True),
            sa.Column("made_by", sa.String(200), nullable=True),
            sa.Column("reverses", BIG_ID, nullable=True),
        ),
    }


def upgrade() -> None:
    for name, columns in added().items():
        for column in columns:
            op.add_column(name, column)
    know_kinds(f"{BEFORE}, 'correct', 'anchor'")


def downgrade() -> None:
    """Anchors add nothing to any counter; without a correction the sums would no longer be right."""
    corrections = "SELECT count(*) FROM ledger_entries WHERE kind = 'correct'"
    if count := op.get_bind().execute(sa.text(corrections)).scalar_one():
        raise RuntimeError(f"the ledger has {count} corrections, which revision 0007 cannot hold: stay at 0008")
    unprotect()
    op.execute("DELETE FROM ledger_entries WHERE kind = 'anchor'")
    protect()
    know_kinds(BEFORE)
    for name, columns in added().items():
        for column in columns:
            op.drop_column(name, column.name)


def know_kinds(kinds: str) -> None:
    """SQLite makes the table anew for that, and forgets its triggers."""
    with op.batch_alter_table("ledger_entries") as table:
        table.drop_constraint(op.f(KNOWN), type_="check")
        table.create_check_constraint(op.f(KNOWN), f"kind IN ({kinds})")
    if op.get_bind().dialect.name == "sqlite":
        protect()


def unprotect() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_append_only")
    else:
        for change in ("update", "delete"):
            op.execute(f"DROP TRIGGER ledger_entries_no_{change}")


def protect() -> None:
    """Append-only, whoever holds the connection."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE ledger_entries ENABLE TRIGGER ledger_entries_append_only")
    else:
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER IF NOT EXISTS ledger_entries_no_{change.lower()} BEFORE {change} ON ledger_entries "
                "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
            )
