"""`recourse serve`: the API."""

from typing import Annotated

import typer


def serve(
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; by default RECOURSE_SERVE_HOST, else 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="The port to listen on; 0 takes a free one; by default RECOURSE_SERVE_PORT, else 8000.",
            min=0,
            max=65535,
        ),
    ] = None,
) -> None:
    """Serve the API. With nothing configured everything runs here: SQLite, an explainer, a trainer."""
    from app.commands.serve_run import run

    run(host, port)
