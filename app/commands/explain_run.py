"""The work of `recourse explain`: load, read, search; a record that cannot be read does not keep the others waiting."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track

from app.commands.data import ReadRecords, read_rows
from app.commands.explain import ExplainOrder
from app.commands.requests import parse_directions, parse_ranges
from models.config import SearchConfig
from models.data.schema import Schema
from models.ensemble.meter import QueryMeter
from models.ensemble.protocol import Ensemble
from models.model import RecourseModel
from models.search.answers import Explanation, Status
from models.search.search import explain, target_codes
from models.space.constraints import Constraints, merge_rules
from models.storage.artifact import ENSEMBLE_FOLDER, load_ensemble_of, load_model
from models.storage.sealed import check_seal

BATCH = 200
"""Records searched at once: an answer does not depend on its batch, the memory does."""
MAX_QUERIES = 10


@dataclass(frozen=True, eq=False)
class ExplainReport:
    """The answers, one a record in the order of the file, and what they cost together."""

    version: str
    target: str
    config: SearchConfig
    explanations: tuple[Explanation, ...]
    queries: int

    @property
    def faulty(self) -> bool:
        """Whether a record got neither an answer nor a diagnosis."""
        return any(answer.status is Status.ERROR for answer in self.explanations)


def run_explanations(order: ExplainOrder, console: Console) -> ExplainReport:
    """A wrong request is refused as a whole; a wrong record gets its own error."""
    model = load_model(order.folder, order.device)
    schema = model.encoder.schema
    constraints = _constraints(order, schema)
    target_codes(model, order.target, 0)
    config = _search_config(order)
    rows = read_rows(schema, order.records, order.limit_rows)
    meter = None
    if config.max_queries:
        meter = QueryMeter(load_ensemble_of(order.folder), config.max_queries * len(rows))
    explanations = _explain_rows(model, rows, order.target, constraints, config, meter, console)
    spent = 0 if meter is None else meter.spent
    return ExplainReport(check_seal(order.folder), order.target, config, explanations, spent)


def _constraints(order: ExplainOrder, schema: Schema) -> Constraints:
    """The constraints of the command line, checked as far as no record is needed for it."""
    ranges, directions = parse_ranges(schema, order.ranges), parse_directions(schema, order.directions)
    constraints = Constraints(frozenset(order.immutable), ranges, directions)
    merge_rules(schema, constraints.immutable, constraints.ranges, constraints.directions)
    return constraints


def _search_config(order: ExplainOrder) -> SearchConfig:
    queries = order.max_queries
    if queries is None:
        queries = MAX_QUERIES if _has_ensemble(order.folder) else 0
    return SearchConfig(
        candidates=order.candidates,
        cost_weight=order.price,
        min_expected_agreement=order.robustness,
        k=order.answers,
        min_agreement=order.min_agreement,
        max_queries=queries,
        seed=order.seed,
    )


def _has_ensemble(folder: Path) -> bool:
    return (folder / ENSEMBLE_FOLDER).is_dir()


def _explain_rows(
    model: RecourseModel,
    rows: ReadRecords,
    target: str,
    constraints: Constraints,
    config: SearchConfig,
    ensemble: Ensemble | None,
    console: Console,
) -> tuple[Explanation, ...]:
    answers = [Explanation(Status.ERROR, (), 0, error=error) for error in rows.errors]
    starts = range(0, len(rows.records), BATCH)
    for start in track(starts, "searching", console=console, transient=True, disable=len(starts) < 2):
        records = rows.records[start : start + BATCH]
        codes = target_codes(model, target, len(records))
        found = explain(model, records, codes, constraints, config, ensemble)
        for within, answer in enumerate(found):
            answers[rows.positions[start + within]] = _numbered(answer, within)
    return tuple(answers)


def _numbered(answer: Explanation, within: int) -> Explanation:
    """A constraint error counts the rows of its batch; here the record's own number stands beside it."""
    if answer.error is None:
        return answer
    return Explanation(answer.status, (), answer.queries, error=answer.error.removeprefix(f"Row {within + 1}: "))
