"""The database's schema: bring it to a revision, or say how it differs from the tables."""

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from app.db.engine import Database, allow_time
from app.db.tables import Tables
from models.errors import ConfigError

HERE = Path(__file__).resolve()
CHECKOUT, WHEEL = HERE.parents[2] / "migrations", HERE.parents[1] / "migrations"
"""Where the migrations stand: beside `app` in a checkout, inside of it once a wheel is installed."""


def upgrade(database: Database, revision: str = "head") -> None:
    """Run the migrations that are missing, all or none; processes that do so at once wait for each other."""
    with database.writing() as connection:
        allow_time(connection)
        command.upgrade(_configuration(connection), revision)


def downgrade(database: Database, revision: str) -> None:
    """Undo the migrations after `revision`, all or none; what only they could store is lost."""
    with database.writing() as connection:
        allow_time(connection)
        command.downgrade(_configuration(connection), revision)


def current_revision(database: Database) -> str | None:
    """The revision that the database is at, or None if it is empty."""
    with database.reading() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest_revision() -> str | None:
    """The revision that this program was written for."""
    return ScriptDirectory(scripts()).get_current_head()


def is_behind(database: Database) -> bool:
    """Whether `recourse migrate` has something to do; not where the database is of a newer release."""
    current, known = current_revision(database), ScriptDirectory(scripts())
    return current is None or current in {script.revision for script in known.walk_revisions()} - {newest_revision()}


def differences(database: Database) -> list[str]:
    """What a new migration would have to do to make the database equal to the tables; empty if there is no drift."""
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return [str(difference) for difference in compare_metadata(context, Tables.metadata)]


def scripts() -> Path:
    """The folder of the migrations."""
    for folder in (CHECKOUT, WHEEL):
        if (folder / "env.py").is_file():
            return folder
    raise ConfigError(f"the migrations are neither in {CHECKOUT} nor in {WHEEL}: install the package again")


def _configuration(connection: Connection) -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    configuration.attributes["connection"] = connection
    return configuration
