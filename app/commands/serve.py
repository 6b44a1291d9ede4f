"""`recourse serve`: the API."""

from typing import Annotated

import typer


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.", min=0, max=65535)] = 8000,
) -> None:
    """Serve the API. With nothing configured everything runs here: SQLite, an explainer, a trainer."""
    from app.commands.serve_run import run

    run(host, port)
