"""`recourse explain`: what refused records could change, and which models would then agree.

The same request is answered by a model in a folder, or with --url by a service, and shown in the same way. What takes
long to import is imported by the function that needs it, so that `--help` comes at once and --url needs no torch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app.commands.console import answers, notes
from app.commands.options import listed
from models.errors import ArtifactError, ConfigError, DataError, RecordError

if TYPE_CHECKING:
    from app.explain.contract import ExplainOptions
    from models.data.schema import Schema
    from recourse_client.client import RecourseClient
    from recourse_client.types import Counterfactual, Diagnosis, Finding, Value

KEY_VARIABLE = "RECOURSE_KEY"
DEVICE = "cpu"
FLOOR = 0.5
QUERIES = 10
"""Unless --max-queries says otherwise, where there is an ensemble to ask."""
MOST_QUERIES = 1000
"""As POST /explain has it."""
DEADLINE_MS = 300_000
"""The first request loads the model, which takes a while on a busy machine."""
BATCH = 200
"""Records searched at once: an answer does not depend on its batch, the memory does."""

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `recourse train` made.")]
RecordsFile = Annotated[
    Path, typer.Argument(metavar="RECORDS", help="A CSV or Parquet file; a label column is ignored.")
]
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
Floor = Annotated[float, typer.Option(min=0, max=1, help="The least expected agreement of an unverified answer.")]
OldFloor = Annotated[float | None, typer.Option("--robustness", min=0, max=1, hidden=True)]
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
MaxChanges = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="The most changes; what moves together is one. none: no limit.",
        show_default="the schema's, 4",
    ),
]
Levers = Annotated[str, typer.Option(help="Who shall act: applicant, time, lender; several with commas.")]
Horizon = Annotated[int, typer.Option(min=0, max=120, help="The longest wait that is advised, in months.")]
PolicyFile = Annotated[
    Path | None, typer.Option(metavar="JSON", help="An action policy in place of the model's own (docs/POLICY.md).")
]
LanguageOption = Annotated[str, typer.Option(help="Of the sentences: en or de.")]
Url = Annotated[str | None, typer.Option(metavar="URL", help="Ask a service: DIR is its model, RECOURSE_KEY the key.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or one card of several such as cuda:1.")]
Asked: TypeAlias = "Callable[[Schema, int], ExplainOptions]"
"""The options, checked with a model's schema; the number is that of the queries if the user gave none."""


@dataclass(frozen=True, eq=False)
class Report:
    """The answers, one a record in the order of the file; `of_service`: what else a service tells of its answer."""

    model: str
    options: "ExplainOptions"
    explanations: "Sequence[Finding]"
    queries: int
    of_service: Mapping[str, object] = field(default_factory=dict)

    @property
    def faulty(self) -> bool:
        """Whether a record got neither an answer nor a diagnosis."""
        return any(answer.status == "error" for answer in self.explanations)


def explain(
    folder: Folder,
    records: RecordsFile,
    target: Target,
    immutable: Immutable = "",
    ranges: Ranges = None,
    directions: Directions = None,
    max_changes: MaxChanges = None,
    levers: Levers = "applicant,time",
    horizon_months: Horizon = 12,
    policy: PolicyFile = None,
    language: LanguageOption = "en",
    k: Answers = 1,
    price: Price = 0.1,
    min_expected_agreement: Floor = FLOOR,
    robustness: OldFloor = None,
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

    def asked(schema: "Schema", usual_queries: int) -> "ExplainOptions":
        from app.commands.requests import parse_directions, parse_most, parse_ranges

        bounds = {name: list(wanted) for name, wanted in parse_ranges(schema, ranges or ()).items()}
        ways = parse_directions(schema, directions or ())
        return _options(
            target=target,
            constraints={
                "immutable": list(listed(immutable)),
                "ranges": bounds,
                "directions": ways,
                "max_changes": parse_most(max_changes),
                "horizon_months": horizon_months,
            },
            levers=list(listed(levers)),
            language=language,
            k=k,
            robustness={
                "min_agreement": min_agreement,
                "max_queries": usual_queries if max_queries is None else max_queries,
                "min_expected_agreement": min_expected_agreement if robustness is None else robustness,
            },
            price=price,
            candidates=candidates,
            seed=seed,
        )

    if url is None:
        report = explain_here(folder, records, limit_rows, asked, device, policy)
    elif policy is not None:
        raise ConfigError("--policy is for a model here; a service has its own: see PUT /models/{name}/policy.")
    elif device != DEVICE:
        raise ConfigError(f"--device is {device}, which a service does not take; leave it out, or leave out --url.")
    else:
        report = explain_there(url, str(folder), records, limit_rows, asked)
    if json:
        typer.echo(report_json(report))
    else:
        answers().print(report_table(report))
    if report.faulty:
        raise typer.Exit(2)


def _options(**fields: object) -> "ExplainOptions":
    from pydantic import ValidationError

    from app.explain.contract import ExplainOptions

    try:
        return ExplainOptions.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        fact = f"{first['loc'][-1]} is {first['input']!r}" if first["loc"] else "the request is wrong"
        raise ConfigError(f"{fact}; {first['msg'][:1].lower()}{first['msg'][1:]}.") from error


def explain_here(
    folder: Path,
    records: Path,
    limit_rows: int | None,
    asked: Asked,
    device: str = DEVICE,
    policy: Path | None = None,
) -> Report:
    """A wrong request is refused as a whole; a wrong record gets its own error, and keeps nobody waiting."""
    # Said before seconds go into imports.
    if not folder.is_dir():
        raise ArtifactError(f"There is no folder '{folder}'; make it with `recourse train`.")
    if not records.is_file():
        raise DataError(f"There is no file '{records}'; check the path.")
    from rich.progress import track

    from app.commands.data import read_rows
    from app.commands.requests import read_policy
    from app.explain.answer import record_answer
    from models.device import one_thread
    from models.ensemble.meter import QueryMeter
    from models.search.answers import Explanation, Status
    from models.search.search import explain as search
    from models.search.search import target_codes
    from models.space.constraints import merge_rules
    from models.storage.artifact import ENSEMBLE_FOLDER, load_ensemble_of, load_model
    from models.storage.sealed import check_seal
    from recourse_client.types import Finding

    with one_thread():
        model = load_model(folder, device)
        if policy is not None:
            model = replace(model, policy=read_policy(policy, model.encoder.schema))
        schema = model.encoder.schema
        options = asked(schema, QUERIES if (folder / ENSEMBLE_FOLDER).is_dir() else 0)
        constraints, config = options.search_constraints(), options.search_config()
        merge_rules(schema, constraints.immutable, constraints.ranges, constraints.directions)
        target_codes(model, options.target, 0)
        rows = read_rows(schema, records, limit_rows)
        meter = None
        if config.max_queries:
            meter = QueryMeter(load_ensemble_of(folder), config.max_queries * len(rows))
        found = [Explanation(Status.ERROR, (), 0, error=error) for error in rows.errors]
        starts = range(0, len(rows.records), BATCH)
        for start in track(starts, "searching", console=notes(), transient=True, disable=len(starts) < 2):
            batch = rows.records[start : start + BATCH]
            searched = search(model, batch, target_codes(model, options.target, len(batch)), constraints, config, meter)
            for within, answer in enumerate(searched):
                # A constraint error counts the rows of its batch; here the record's own number stands beside it.
                error = None if answer.error is None else answer.error.removeprefix(f"Row {within + 1}: ")
                found[rows.places[start + within]] = replace(answer, error=error)
    explanations = [
        Finding.model_validate_json(record_answer(answer, model.policy, options.language).body) for answer in found
    ]
    return Report(check_seal(folder), options, explanations, 0 if meter is None else meter.spent)


def explain_there(url: str, model: str, records: Path, limit_rows: int | None, asked: Asked) -> Report:
    """The same through a service. Wrong rows are told before anything is sent."""
    import os

    from app.commands.data import read_rows
    from models.data.records import from_records
    from models.data.schema import Schema

    if not records.is_file():
        raise DataError(f"There is no file '{records}'; check the path.")
    # Not an option: a list of processes would show it.
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise ConfigError(f"--url needs a key; set {KEY_VARIABLE}.")
    with open_client(url, key) as client:
        schema = Schema.from_json(client.schema(model))
        options = asked(schema, QUERIES)
        rows = read_rows(schema, records, limit_rows)
        wrong = [f"row {row}: {error}" for row, error in enumerate(rows.errors, start=1) if error is not None]
        if wrong:
            raise RecordError(f"{len(wrong)} of {len(rows)} records cannot be read, the first is {wrong[0]}")
        return ask(client, model, from_records(schema, rows.records), options)


def ask(
    client: "RecourseClient", model: str, records: "Sequence[Mapping[str, Value]]", options: "ExplainOptions"
) -> Report:
    """What the service answers."""
    sent = options.model_dump(mode="json", exclude={"target"}) | {"deadline_ms": DEADLINE_MS}
    answer = client.explain(model, records, options.target, sent)
    told = {"request_id": answer.request_id, "version": answer.version, "charged": answer.charged}
    return Report(answer.model, options, answer.explanations, answer.queries, told)


@contextmanager
def open_client(url: str, key: str, seconds: float = DEADLINE_MS / 1000) -> "Iterator[RecourseClient]":
    """A client whose errors are those of a command."""
    from app.errors import ServiceError
    from recourse_client import ClientError, RecourseClient

    try:
        with RecourseClient(url, key, seconds) as client:
            yield client
    except ClientError as error:
        raise ServiceError(str(error)) from error


def report_json(report: Report) -> str:
    """One object. The keys are a promise: scripts read them. `row` counts from 1, in the order of the records."""
    import json

    document = {
        "model": report.model,
        "target": report.options.target,
        "seed": report.options.seed,
        "min_agreement": report.options.robustness.min_agreement,
        "max_queries": report.options.robustness.max_queries,
        "queries": report.queries,
        **report.of_service,
        "explanations": [
            {"row": row, **answer.model_dump(mode="json", by_alias=True, exclude_unset=True)}
            for row, answer in enumerate(report.explanations, start=1)
        ],
    }
    return json.dumps(document, indent=2, allow_nan=False)


COLOURS = {"robust": "green", "valid": "yellow", "already_target": "green", "infeasible": "red", "error": "red"}


def report_table(report: Report, record: str = "Row") -> RenderableType:
    """One block a record, which is called so, and a line for all of them."""
    target, statuses = report.options.target, [answer.status for answer in report.explanations]
    blocks = [_block(f"{record} {row}", answer, target) for row, answer in enumerate(report.explanations, start=1)]
    counts = ", ".join(f"{statuses.count(one)} {one.replace('_', ' ')}" for one in COLOURS if one in statuses)
    noun = "record" if len(blocks) == 1 else "records"
    return Group(*blocks, Text(f"{len(blocks)} {noun}: {counts}; {report.queries} queries."))


def _block(name: str, answer: "Finding", target: str) -> RenderableType:
    heading = Text(f"{name}: ", style="bold")
    heading.append(answer.status.replace("_", " "), style=COLOURS.get(answer.status, "red"))
    parts: list[RenderableType] = []
    if answer.error is not None:
        heading.append(f": {answer.error}")
    elif answer.status == "already_target":
        models = "the models were asked" if answer.queries else "as expected without asking the models"
        heading.append(f": it is '{target}' already, {models}; nothing needs to change")
    parts += [Text(notice) for notice in answer.notices]
    if answer.diagnosis is not None:
        parts.append(_diagnosis(answer.diagnosis))
    for number, found in enumerate(answer.counterfactuals, start=1):
        if len(answer.counterfactuals) > 1:
            parts.append(Text(f"answer {number} of {len(answer.counterfactuals)}", style="bold"))
        parts += _counterfactual(found, nearest=answer.status == "infeasible")
    return Group(heading, Padding(Group(*parts), (0, 0, 1, 2)))


def _diagnosis(diagnosis: "Diagnosis") -> Text:
    best = f"{diagnosis.best_agreement:.0%}, {'verified' if diagnosis.verified else 'expected'}"
    return Text(f"No answer was found: the best agreement is {best}. {diagnosis.advice}")


def _counterfactual(found: "Counterfactual", nearest: bool) -> list[RenderableType]:
    """The changes, then the figures; `nearest`: this is the best attempt, not an answer."""
    steps = [f"{place}. {action.sentence}" for place, action in enumerate(found.actions, start=1) if action.sentence]
    table = Table("feature", "now", "nearest attempt" if nearest else "change to")
    for change in found.changes:
        table.add_row(change.feature, _show(change.before), _show(change.after))
    figures = f"cost {found.cost:.2f}, expected agreement {found.expected_agreement:.0%}, {_place(found)}"
    parts: list[RenderableType] = [*map(Text, steps), table, Text(_vote_sentence(found)), Text(figures)]
    if found.votes:
        accepting = ", ".join(vote.model for vote in found.votes if vote.accepts is True) or "nobody"
        refusing = ", ".join(vote.model for vote in found.votes if vote.accepts is False) or "nobody"
        parts.append(Text(f"accept: {accepting}; refuse: {refusing}"))
    return parts


def _vote_sentence(found: "Counterfactual") -> str:
    """What is known of one answer, and no more than that."""
    if found.agreement is None:
        return f"Not verified; the surrogate expects {found.expected_agreement:.0%} of the models to accept."
    sentence = f"{sum(vote.accepts is True for vote in found.votes)} of {len(found.votes)} models accept."
    silent = [vote.model for vote in found.votes if vote.accepts is None]
    return f"{sentence} No answer from {', '.join(silent)}." if silent else sentence


def _place(found: "Counterfactual") -> str:
    """How it compares with real records of the target class."""
    share = "" if found.typicality is None else f" ({found.typicality:.0%} of those accepted are less typical)"
    return ("like real records" if found.trusted else "UNLIKE real records") + share


def _show(value: "Value") -> str:
    """With all its digits: two values that differ are shown apart."""
    if value is None:
        return "missing"
    return f"{value:.15g}" if isinstance(value, float) else str(value)
