"""What POST /explain asks for, checked as far as the model is not needed for it.

What the service asks of an explainer, wherever it runs: in this process (resident.py) or in workers (remote.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, cast
from uuid import UUID, uuid4

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
)

from app.fields import Body, DeadlineMs, Name
from models.data.records import Value
from models.data.schema import Direction
from models.space.constraints import Range


@dataclass(frozen=True, slots=True)
class ExplainOrder:
    """One checked request for one version of a model.

    records      raw values by name, as the lender holds them; each is checked by itself
    price        the dial of models.search.SearchConfig; None is its default
    max_queries  black-box queries for each record; 0: the surrogate alone decides
    deadline     a moment of time.monotonic(); an order that has not begun by then is dropped
    order_id     an order with queries runs at most once under its id
    """

    tenant_id: int
    version_id: UUID
    records: Sequence[Mapping[str, Value]]
    target: str
    immutable: tuple[str, ...] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    directions: Mapping[str, Direction] = field(default_factory=dict)
    k: int = 1
    min_agreement: float = 1.0
    max_queries: int = 0
    price: float | None = None
    candidates: int = 30
    seed: int = 0
    trajectory: bool = False
    deadline: float = math.inf
    order_id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True)
class RecordAnswer:
    """The answer to one record; `body` is its JSON object: status, counterfactuals, diagnosis, error, queries.

    It is written once, by the engine, and goes as it is into the reply and into the decision record. charged: how many
    of the queries were new; it is not in the body, which is the same each time.
    """

    status: str
    queries: int
    body: bytes
    charged: int = 0


@dataclass(frozen=True, slots=True)
class ExplainAnswer:
    """One answer a record, in the order of the records."""

    records: tuple[RecordAnswer, ...]


@dataclass(frozen=True, slots=True)
class VerifyOrder:
    """Records to put to the ensemble of a version as it is now; with a target, votes for it are counted."""

    tenant_id: int
    version_id: UUID
    records: Sequence[Mapping[str, Value]]
    target: str | None = None
    deadline: float = math.inf
    order_id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True)
class VerifiedRecord:
    """What the ensemble says of one record: probabilities (m, K), one row a member, None for one that is missing.

    votes, agreement and lower_bound are for the order's target, and None without one; a record that cannot be read
    has only an error.
    """

    probabilities: tuple[tuple[float, ...] | None, ...] = ()
    votes: tuple[bool | None, ...] | None = None
    agreement: float | None = None
    lower_bound: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class VerifyAnswer:
    """The members asked, the classes, one entry a record; charged: new queries; reused: answers bought before."""

    members: tuple[str, ...]
    classes: tuple[str, ...]
    records: tuple[VerifiedRecord, ...]
    charged: int
    reused: int


@dataclass(frozen=True, slots=True)
class ExplainerState:
    """For /readyz and /metrics; ready says whether an order could be run now, reason why not."""

    ready: bool
    reason: str | None = None
    versions: int = 0
    queued_records: int = 0
    queue_limit: int = 0
    workers: int = 1


class Explainer(Protocol):
    """Runs orders. Errors are RecourseErrors: an order that cannot be run as a whole raises, a bad record does not."""

    async def explain(self, order: ExplainOrder) -> ExplainAnswer: ...

    async def verify(self, order: VerifyOrder) -> VerifyAnswer: ...

    async def state(self) -> ExplainerState: ...

    async def close(self) -> None:
        """Finish what is running, refuse what is not."""
        ...


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """See `ExplainOrder` for the fields that they share; deadline_ms None: the operator's default."""

    model: str
    records: Sequence[Mapping[str, Value]]
    target: str
    immutable: tuple[str, ...] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    directions: Mapping[str, Direction] = field(default_factory=dict)
    k: int = 1
    min_agreement: float = 1.0
    max_queries: int = 0
    price: float | None = None
    candidates: int = 30
    seed: int = 0
    trajectory: bool = False
    deadline_ms: int | None = None

    @property
    def work(self) -> int:
        """How many paths have to be solved."""
        return len(self.records) * self.candidates * self.k

    def order(self, tenant_id: int, version_id: UUID, deadline: float = math.inf) -> ExplainOrder:
        return ExplainOrder(
            tenant_id=tenant_id,
            version_id=version_id,
            records=self.records,
            target=self.target,
            immutable=self.immutable,
            ranges=self.ranges,
            directions=self.directions,
            k=self.k,
            min_agreement=self.min_agreement,
            max_queries=self.max_queries,
            price=self.price,
            candidates=self.candidates,
            seed=self.seed,
            trajectory=self.trajectory,
            deadline=deadline,
        )

    def document(self) -> dict[str, object]:
        """All that the answer to a record depends on, besides the model, the record and the target."""
        return {
            "constraints": {
                "immutable": list(self.immutable),
                "ranges": {name: list(wanted) for name, wanted in self.ranges.items()},
                "directions": {name: way.value for name, way in self.directions.items()},
            },
            "k": self.k,
            "robustness": {"min_agreement": self.min_agreement, "max_queries": self.max_queries},
            "price": self.price,
            "candidates": self.candidates,
            "seed": self.seed,
            "trajectory": self.trajectory,
        }


Text = Annotated[str, StringConstraints(strict=True, max_length=1000)]
Number = Annotated[StrictFloat, Field(allow_inf_nan=False)]
RawValue = StrictBool | StrictInt | Number | Text | None
MOST_FEATURES = 10_000
MOST_RANGES = 1_000


def _not_too_many(most: int) -> BeforeValidator:
    """Before its entries are looked at: pydantic counts them when it has told what is wrong with each."""

    def check(entries: object) -> object:
        if isinstance(entries, dict) and len(entries) > most:
            raise ValueError(f"it has {len(entries)} entries, {most} is the limit")
        return entries

    return BeforeValidator(check)


def _plain_values(record: object) -> object:
    """The first value that is none ends it."""
    for name, value in record.items() if isinstance(record, dict) else ():
        if isinstance(value, dict | list):
            raise ValueError(f"{str(name)[:60]!r} holds a list or an object, not a number or a text")
    return record


# What is wrong all over is told so once: each error takes a kilobyte, and holds up everybody else.
Record = Annotated[
    dict[Text, RawValue],
    Field(max_length=MOST_FEATURES, description="Every feature by name, raw values; null where a value is missing."),
    BeforeValidator(_plain_values),
    _not_too_many(MOST_FEATURES),
]
Records = Annotated[list[Record], Field(min_length=1, fail_fast=True)]
Bounds = Annotated[list[StrictInt | Number | None], Field(min_length=2, max_length=2)]
Categories = Annotated[list[Text], Field(min_length=1, max_length=10_000, fail_fast=True)]

RECORD: dict[str, JsonValue] = {"age": 31, "income": 24000, "housing": "rent", "loan_amount": 15000, "loan_months": 48}


class ConstraintsBody(Body):
    """What the applicant cannot or will not change; the model's own rules hold as well."""

    immutable: list[Text] = Field(
        default_factory=list, max_length=10_000, fail_fast=True, examples=[["age", "housing"]]
    )
    ranges: Annotated[dict[Text, Bounds | Categories], _not_too_many(MOST_RANGES)] = Field(
        default_factory=dict,
        max_length=MOST_RANGES,
        description="Least and greatest number (null: open), or the permitted categories.",
        examples=[{"loan_amount": [5000, None], "housing": ["rent", "own"]}],
    )
    directions: Annotated[dict[Text, Direction], _not_too_many(MOST_FEATURES)] = Field(
        default_factory=dict, max_length=MOST_FEATURES, examples=[{"savings": "up"}]
    )


class RobustnessBody(Body):
    """How sure an answer must be."""

    min_agreement: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="The share of the lender's models that must accept; one that does not answer has not accepted.",
    )
    max_queries: int = Field(
        default=0, ge=0, le=1000, description="Records put to the models for each record; 0: the surrogate decides."
    )


class AskedBody(Body):
    """What both forms of the request share."""

    target: Annotated[str, StringConstraints(min_length=1, max_length=1000), Field(examples=["approved"])]
    constraints: ConstraintsBody = Field(default_factory=ConstraintsBody)
    k: int = Field(1, ge=1, le=10, description="So many answers, which change different features.")
    robustness: RobustnessBody = Field(default_factory=RobustnessBody)
    price: float | None = Field(
        None, gt=0, le=1e6, allow_inf_nan=False, description="The dial: what agreement a unit of cost must bring."
    )
    candidates: int = Field(30, ge=1, le=1000, description="Starting points of the search.")
    seed: int = Field(0, ge=0, le=2**63 - 1, description="The same seed gives the same answers.")
    trajectory: bool = Field(False, description="Whether the path of each first answer is told.")
    deadline_ms: DeadlineMs = None

    def request(self, model: str, records: list[dict[str, Any]]) -> ExplainRequest:
        """The request as the service takes it."""
        asked = self.constraints
        ranges = {name: cast(Range, tuple(wanted)) for name, wanted in asked.ranges.items()}
        return ExplainRequest(
            model=model,
            records=records,
            target=self.target,
            immutable=tuple(asked.immutable),
            ranges=ranges,
            directions=asked.directions,
            k=self.k,
            min_agreement=self.robustness.min_agreement,
            max_queries=self.robustness.max_queries,
            price=self.price,
            candidates=self.candidates,
            seed=self.seed,
            trajectory=self.trajectory,
            deadline_ms=self.deadline_ms,
        )


class ExplainBody(AskedBody):
    """Records that were refused, and the class that they should reach."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "loans",
                    "records": [RECORD],
                    "target": "approved",
                    "constraints": {"immutable": ["housing"], "ranges": {"loan_amount": [5000, None]}},
                    "robustness": {"min_agreement": 0.8, "max_queries": 10},
                }
            ]
        }
    )

    model: Name
    records: Records

    def to_request(self) -> ExplainRequest:
        return self.request(self.model, self.records)
