"""`recourse health`: is the process on this machine ready? A container's health check: images have no curl."""

import http.client
from enum import StrEnum
from typing import Annotated

import typer

from app.settings import Settings

SECONDS = 8.0
READY = 200

app = typer.Typer(add_completion=False)


class Process(StrEnum):
    """Whose health it is."""

    API = "api"
    WORKER = "worker"


@app.command()
def health(process: Annotated[Process, typer.Argument(help="Which process to ask.")] = Process.API) -> None:
    """Ask the API or the worker's explainer on this machine for /readyz; exit 1 and say why if it is not ready."""
    settings = Settings()
    port = settings.serve_port if process is Process.API else settings.explainer_port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        said = answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        typer.echo(f"port {port} does not answer: {error}")
        raise typer.Exit(1) from None
    finally:
        connection.close()
    typer.echo(said)
    raise typer.Exit(0 if answer.status == READY else 1)


if __name__ == "__main__":
    app()
