"""`recourse demo`: the whole service with made-up loans, from nothing to a dashboard."""

from typing import Annotated

import typer

from app.commands.console import notes


def demo(
    port: Annotated[int, typer.Option(help="The port to serve on.", min=1, max=65535)] = 8000,
    once: Annotated[bool, typer.Option("--once", help="End when everything was shown, instead of staying up.")] = False,
    effort: Annotated[float, typer.Option(help="How long to train, as a multiple of the usual.", min=0.01)] = 0.3,
) -> None:
    """Serve, train on made-up loans, explain refused applicants, and show where to look."""
    from app.commands.demo_run import run

    try:
        run(port, once, effort)
    except KeyboardInterrupt:
        notes().print("Stopped. What was trained so far is kept; the next demo goes on with it.")
        raise typer.Exit(130) from None
