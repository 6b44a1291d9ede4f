"""`recourse explain --url`: the same question, put to a service that runs elsewhere."""

import os
from dataclasses import dataclass
from pathlib import Path

from app.commands.data import read_rows
from app.commands.requests import parse_directions, parse_ranges
from models.data.records import from_records
from models.data.schema import Schema
from models.errors import ConfigError, RecordError
from recourse_client.client import RecourseClient
from recourse_client.types import Answer

KEY_VARIABLE = "RECOURSE_KEY"
MAX_QUERIES = 10
DEADLINE_MS = 300_000


@dataclass(frozen=True, slots=True)
class RemoteOrder:
    """What the command line asks for; the key comes from the environment, where no list of processes shows it."""

    url: str
    model: str
    records: Path
    target: str
    immutable: tuple[str, ...]
    ranges: tuple[str, ...]
    directions: tuple[str, ...]
    answers: int
    min_agreement: float
    max_queries: int | None
    candidates: int
    price: float
    seed: int
    limit_rows: int | None


def explain_there(order: RemoteOrder) -> Answer:
    """Wrong rows are told before anything is sent."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise ConfigError(f"--url needs a key: set {KEY_VARIABLE}")
    with RecourseClient(order.url, key) as client:
        schema = Schema.from_json(client.schema(order.model))
        rows = read_rows(schema, order.records, order.limit_rows)
        wrong = [f"row {row}: {error}" for row, error in enumerate(rows.errors, start=1) if error is not None]
        if wrong:
            raise RecordError(f"{len(wrong)} of {len(rows)} records cannot be read, the first is {wrong[0]}")
        return client.explain(order.model, from_records(schema, rows.records), order.target, _options(order, schema))


def _options(order: RemoteOrder, schema: Schema) -> dict[str, object]:
    ranges = {name: list(wanted) for name, wanted in parse_ranges(schema, order.ranges).items()}
    directions = {name: way.value for name, way in parse_directions(schema, order.directions).items()}
    queries = MAX_QUERIES if order.max_queries is None else order.max_queries
    return {
        "constraints": {"immutable": list(order.immutable), "ranges": ranges, "directions": directions},
        "robustness": {"min_agreement": order.min_agreement, "max_queries": queries},
        "k": order.answers,
        "candidates": order.candidates,
        "price": order.price,
        "seed": order.seed,
        "deadline_ms": DEADLINE_MS,
    }
