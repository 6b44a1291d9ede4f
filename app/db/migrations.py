"""The database's schema: bring it to a revision, or say how it differs from the tables."""

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.tables import Tables
from models.errors import ConfigError

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def upgrade(database: Database, revision: str = "head") -> None:
    """Run the migrations that are missing, all or none; processes that do so at once wait for each other."""
    with database.writing() as connection:
        command.upgrade(_configuration(connection), revision)


def downgrade(database: Database, revision: str) -> None:
    """Undo the migrations after `revision`, all or none; what only they could store is lost."""
    with database.writing() as connection:
        command.downgrade(_configuration(connection), revision)


def current_revision(database: Database) -> str | None:
    """The revision that the database is at, or None if it is empty."""
    with database.reading() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest_revision() -> str | None:
    """The revision that this program was written for."""
    return ScriptDirectory.from_config(Config(toml_file=PROJECT)).get_current_head()


def differences(database: Database) -> list[str]:
    """What a new migration would have to do to make the database equal to the tables; empty if there is no drift."""
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return [str(difference) for difference in compare_metadata(context, Tables.metadata)]


def _configuration(connection: Connection) -> Config:
    if not PROJECT.exists():
        raise ConfigError(
            f"the migrations are found through {PROJECT}, which is missing: run from a checkout or our image"
        )
    configuration = Config(toml_file=PROJECT)
    configuration.attributes["connection"] = connection
    return configuration
