"""`recourse explain`: what refused records could change, and which models would then agree."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from app.commands.console import answers, notes
from app.commands.options import MOST_QUERIES, listed
from models.errors import ArtifactError, ConfigError, DataError

ROBUSTNESS = 0.5
DEVICE = "cpu"


@dataclass(frozen=True, slots=True)
class ExplainOrder:
    """What the command line asks for; max_queries None: 10 where the model brings its ensemble, else 0."""

    folder: Path
    records: Path
    target: str
    immutable: tuple[str, ...]
    ranges: tuple[str, ...]
    directions: tuple[str, ...]
    answers: int
    price: float
    robustness: float
    min_agreement: float
    max_queries: int | None
    candidates: int
    seed: int
    limit_rows: int | None
    device: str


Asked: TypeAlias = tuple[
    str,
    tuple[str, ...],
    tuple[str, ...],
    tuple[str, ...],
    int,
    float,
    int | None,
    int,
    float,
    int,
    int | None,
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `recourse train` made.")]
Records = Annotated[Path, typer.Argument(metavar="RECORDS", help="A CSV or Parquet file; a label column is ignored.")]
Target = Annotated[str, typer.Option(metavar="LABEL", help="The class that the records should reach.")]
Immutable = Annotated[str, typer.Option(metavar="A,B", help="Features that must not change.")]
Ranges = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="F=LO:HI", help="Bounds, one may be empty, or categories: purpose=car,home."),
]
Directions = Annotated[
    list[str] | None, typer.Option("--direction", metavar="F=up", help="A feature that may move only up or down.")
]
Answers = Annotated[int, typer.Option("--k", min=1, max=10, help="So many answers, which change different features.")]
Price = Annotated[float, typer.Option(help="The dial: what agreement a unit of cost must bring. Small is robust.")]
Robustness = Annotated[float, typer.Option(min=0, max=1, help="The least expected agreement of an unverified answer.")]
Agreement = Annotated[float, typer.Option(help="The share of black boxes that must accept, above 0 and at most 1.")]
MaxQueries = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=MOST_QUERIES,
        help="Records put to the black boxes for each record; 0: the surrogate decides.",
        show_default="10",
    ),
]
Candidates = Annotated[int, typer.Option(help="Starting points of the search.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same answers.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]
LimitRows = Annotated[int | None, typer.Option(min=1, help="Only the first so many records.")]
Url = Annotated[str | None, typer.Option(metavar="URL", help="Ask a service: DIR is its model, RECOURSE_KEY the key.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or one card of several such as cuda:1.")]


def explain(
    folder: Folder,
    records: Records,
    target: Target,
    immutable: Immutable = "",
    ranges: Ranges = None,
    directions: Directions = None,
    k: Answers = 1,
    price: Price = 0.1,
    robustness: Robustness = ROBUSTNESS,
    min_agreement: Agreement = 1.0,
    max_queries: MaxQueries = None,
    candidates: Candidates = 30,
    seed: Seed = 0,
    json: Json = False,
    limit_rows: LimitRows = None,
    device: Device = DEVICE,
    url: Url = None,
) -> None:
    """Explain RECORDS with the model in DIR: the nearest records that the black boxes, all of them, would accept."""
    frozen = listed(immutable)
    bounds, ways = tuple(ranges or ()), tuple(directions or ())
    if url is not None:
        check_local(robustness, device)
        asked = (target, frozen, bounds, ways, k, min_agreement, max_queries, candidates, price, seed, limit_rows)
        explain_at(url, str(folder), records, asked, json)
        return
    check_paths(folder, records)
    from app.commands.explain_json import report_json
    from app.commands.explain_run import run_explanations
    from app.commands.explain_table import report_table
    from models.device import one_thread

    dial = (price, robustness, min_agreement, max_queries)
    order = ExplainOrder(folder, records, target, frozen, bounds, ways, k, *dial, candidates, seed, limit_rows, device)
    with one_thread():
        report = run_explanations(order, notes())
    if json:
        typer.echo(report_json(report))
    else:
        answers().print(report_table(report))
    if report.faulty:
        raise typer.Exit(2)


def check_local(robustness: float, device: str) -> None:
    """What a service does not take must not seem to hold."""
    for option, given, default in (("--robustness", robustness, ROBUSTNESS), ("--device", device, DEVICE)):
        if given != default:
            raise ConfigError(f"{option} is {given}, which a service does not take; leave it out, or leave out --url.")


def explain_at(url: str, model: str, records: Path, asked: Asked, json: bool) -> None:
    """The same through a service; its answers are shown in its own words."""
    from dataclasses import asdict

    from pydantic_core import to_json

    from app.commands.explain_url import RemoteOrder, explain_there
    from app.commands.remote_table import answer_table

    if not records.is_file():
        raise DataError(f"There is no file '{records}'; check the path.")
    answer = explain_there(RemoteOrder(url, model, records, *asked))
    if json:
        typer.echo(to_json(asdict(answer), indent=2).decode())
    else:
        answers().print(answer_table(answer))
    if any(one.status == "error" for one in answer.explanations):
        raise typer.Exit(2)


def check_paths(folder: Path, records: Path) -> None:
    """Said before seconds go into imports."""
    if not folder.is_dir():
        raise ArtifactError(f"There is no folder '{folder}'; make it with `recourse train`.")
    if not records.is_file():
        raise DataError(f"There is no file '{records}'; check the path.")
