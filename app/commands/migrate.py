"""`recourse migrate`: bring the database to the newest revision."""

import typer

from app.db import migrations
from app.db.engine import open_database
from app.settings import Settings

app = typer.Typer(add_completion=False)


@app.command()
def migrate() -> None:
    """Bring the database of RECOURSE_DATABASE_URL (else SQLite in RECOURSE_VAR_DIR) to the newest revision."""
    database = open_database(Settings().database)
    try:
        before = migrations.current_revision(database)
        migrations.upgrade(database)
        typer.echo(f"{before or 'empty'} -> {migrations.current_revision(database)}")
    finally:
        database.close()


if __name__ == "__main__":
    app()
