"""What POST /explain asks for, and what the service asks of an explainer.

`ExplainRequest` is checked once. It is the body of POST /explain, what the command line asks, what travels to a worker,
and what a decision record keeps. An explainer runs it as an `ExplainTask`, in this process (engine/resident.py) or in
workers (remote.py).
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Protocol, cast
from uuid import UUID, uuid4

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
)
from pydantic_core import from_json, to_json

from app.fields import Body, DeadlineMs, Name
from models.config import SearchConfig
from models.data.policy import Lever
from models.data.schema import Direction
from models.space.constraints import DEFAULT_LEVERS, MOST_MONTHS, BySchema, Constraints, Range

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

    model_config = ConfigDict(frozen=True)

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
    max_changes: Annotated[StrictInt, Field(ge=1, le=MOST_FEATURES)] | BySchema | None = Field(
        default="schema",
        description="The most changes; what moves together by time or by a formula is one. null: no limit; by default "
        "what the model's schema says, 4 unless somebody has changed it.",
        examples=[3],
    )
    weights: Annotated[dict[Text, Annotated[StrictInt | Number, Field(gt=0)]], _not_too_many(MOST_FEATURES)] = Field(
        default_factory=dict,
        max_length=MOST_FEATURES,
        description="How hard a feature is to change: its change costs so many times as much.",
        examples=[{"savings": 2}],
    )
    horizon_months: int = Field(default=12, ge=0, le=MOST_MONTHS, description="The longest wait that is advised.")

    def for_search(self, levers: Sequence[Lever]) -> Constraints:
        """The same as the search takes it; `levers`: who shall act"""
        ranges = {name: cast(Range, tuple(wanted)) for name, wanted in self.ranges.items()}
        return Constraints(
            immutable=frozenset(self.immutable),
            ranges=ranges,
            directions=self.directions,
            max_changes=self.max_changes,
            weights=self.weights,
            levers=tuple(levers),
            months=self.horizon_months,
        )


class RobustnessBody(Body):
    """How sure an answer must be."""

    model_config = ConfigDict(frozen=True)

    min_agreement: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="The share of the lender's models that must accept; one that does not answer has not accepted.",
    )
    max_queries: int = Field(
        default=0, ge=0, le=1000, description="Records put to the models for each record; 0: the surrogate decides."
    )
    min_expected_agreement: float = Field(
        default=0.5, ge=0, le=1, description="The least agreement that the surrogate must expect of an answer."
    )


class ExplainOptions(Body):
    """How to search, whatever the model and the records: what both forms of the request share."""

    model_config = ConfigDict(frozen=True)

    target: Annotated[str, StringConstraints(min_length=1, max_length=1000), Field(examples=["approved"])]
    constraints: ConstraintsBody = Field(default_factory=ConstraintsBody)
    levers: Annotated[list[Lever], Field(min_length=1, max_length=3)] = Field(
        default=list(DEFAULT_LEVERS),
        description="Who shall act, by the model's policy: applicant and time for advice, lender for a counter-offer.",
    )
    k: int = Field(default=1, ge=1, le=10, description="So many answers, which change different features.")
    robustness: RobustnessBody = Field(default_factory=RobustnessBody)
    price: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        allow_inf_nan=False,
        description="The dial: what agreement a unit of cost must bring.",
    )
    candidates: int = Field(default=30, ge=1, le=1000, description="Starting points of the search.")
    seed: int = Field(default=0, ge=0, le=2**63 - 1, description="The same seed gives the same answers.")
    trajectory: bool = Field(default=False, description="Whether the way to each first answer is told.")
    language: Literal["en", "de"] = Field(default="en", description="Of the sentences for the applicant.")
    deadline_ms: DeadlineMs = None

    def search_config(self) -> SearchConfig:
        """The settings of the search: requests with equal ones can be searched together."""
        config = SearchConfig(
            candidates=self.candidates,
            min_expected_agreement=self.robustness.min_expected_agreement,
            k=self.k,
            min_agreement=self.robustness.min_agreement,
            max_queries=self.robustness.max_queries,
            seed=self.seed,
        )
        return config if self.price is None else replace(config, cost_weight=self.price)

    def search_constraints(self) -> Constraints:
        """What the search takes for constraints and levers."""
        return self.constraints.for_search(self.levers)

    def document(self) -> dict[str, Any]:
        """All that the answer to a record depends on, besides the model, the record and the target."""
        return self.model_dump(mode="json", exclude={"model", "records", "target", "deadline_ms"})


class ExplainRequest(ExplainOptions):
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

    @property
    def work(self) -> int:
        """How many paths have to be solved."""
        return len(self.records) * self.candidates * self.k


def _seconds_left(deadline: float) -> float | None:
    return None if math.isinf(deadline) else deadline - time.monotonic()


def _deadline(left: float | None) -> float:
    return math.inf if left is None else time.monotonic() + left


Moment = Annotated[
    float, BeforeValidator(_deadline), PlainSerializer(_seconds_left, return_type=float | None, when_used="json")
]
"""A moment of time.monotonic(), which travels as the seconds that are left: two machines share no clock."""


@dataclass(frozen=True, slots=True)
class ExplainTask:
    """One request for one version of a model. One that asks black boxes runs at most once under its id."""

    request: ExplainRequest
    tenant_id: int
    version_id: UUID
    deadline: Moment = math.inf
    id: UUID = field(default_factory=uuid4)
    policy: dict[str, Any] | None = None
    """The action policy; None: the one that the version was trained with."""

    @property
    def asks(self) -> bool:
        """Whether black boxes are asked, so that it may cost queries."""
        return self.request.robustness.max_queries > 0


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


RawRecords = Annotated[
    Sequence[dict[str, Any]],
    BeforeValidator(lambda records: from_json(records) if isinstance(records, str) else records),
    PlainSerializer(lambda records: to_json(records).decode(), return_type=str, when_used="json"),
]
"""Records that nobody has looked at. They travel as a text: a number in them may be infinite, which the worker says."""


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """Records to put to the ensemble of a version as it is now; with a target, votes for it are counted."""

    tenant_id: int
    version_id: UUID
    records: RawRecords
    target: str | None = None
    deadline: Moment = math.inf
    id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True)
class VerifiedRecord:
    """What the ensemble says of one record: probabilities (m, K), one row a member, None for one that is missing.

    votes, agreement and lower_bound are for the task's target, and None without one; a record that cannot be read
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
    """For /readyz and /metrics; ready says whether a task could be run now, reason what is wrong, if anything is."""

    ready: bool
    reason: str | None = None
    versions: int = 0
    queued_records: int = 0
    queue_limit: int = 0
    workers: int = 1


class Explainer(Protocol):
    """Runs tasks. Errors are RecourseErrors: a task that cannot be run as a whole raises, a bad record does not."""

    def start(self) -> None:
        """Get ready, on the event loop that runs the tasks. Without it the first tasks wait longer."""
        ...

    async def explain(self, task: ExplainTask) -> ExplainAnswer: ...

    async def verify(self, task: VerifyTask) -> VerifyAnswer: ...

    async def state(self) -> ExplainerState: ...

    async def close(self) -> None:
        """Finish what is running, refuse what is not."""
        ...
