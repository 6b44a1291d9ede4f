"""`recourse data`: a built-in data set as CSV, to look at and to try the other commands with."""

from typing import Annotated

import typer

from app.commands.console import answers

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The data set; without it, the names are listed.")]
Seed = Annotated[int, typer.Option(min=0, help="Where a data set is made here: another seed, other rows.")]
Only = Annotated[str | None, typer.Option(metavar="LABEL", help="Only the rows of this class.")]
Rows = Annotated[int | None, typer.Option(min=1, help="Only so many rows, the first ones.")]


def data(name: Name = None, seed: Seed = 0, only: Only = None, rows: Rows = None) -> None:
    """Print a built-in data set as CSV, label included, or list the names."""
    from app.commands.data_run import listed, rows_as_csv

    if name is None:
        answers().print(listed())
        return
    typer.echo(rows_as_csv(name, seed, only, rows), nl=False)
