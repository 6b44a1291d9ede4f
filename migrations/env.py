"""Runs the migrations over the connection that app/commands/migrate.py hands over, all of them or none."""

from alembic import context
from sqlalchemy import Connection, text

from app.db.tables import Tables
from models.errors import ConfigError

MIGRATION_LOCK = 0x7265636F75727365
"""Any number will do, as long as every process that migrates takes the same one."""


def migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Tables.metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        transactional_ddl=True,
    )
    with context.begin_transaction():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
        context.run_migrations()


connection = context.config.attributes.get("connection")
if not isinstance(connection, Connection):
    raise ConfigError("the migrations need a connection: run `recourse migrate`, not alembic itself")
migrate(connection)
