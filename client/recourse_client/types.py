"""What the client hands out: the service's JSON as frozen dataclasses; fields that it does not know are passed over."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from models.data.records import Value


@dataclass(frozen=True, slots=True)
class DataSet:
    """An uploaded table."""

    id: UUID
    name: str
    rows: int
    class_counts: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class Job:
    """A training."""

    id: UUID
    model: str
    state: str
    error: str | None
    created_at: datetime
    progress: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job; `kind` is state, progress or log."""

    id: str
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Model:
    """A model; its active version answers."""

    name: str
    active_version: int | None


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a model, and the schema of the records that it takes."""

    number: int
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelVersions:
    """A model and its newest hundred versions."""

    active_version: int | None
    versions: list[Version]


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    items: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Budget:
    """Queries of the present period."""

    ensemble: str
    limit: int
    used: int
    reserved: int
    remaining: int


@dataclass(frozen=True, slots=True)
class Change:
    """One feature that would change."""

    feature: str
    before: Annotated[Value, Field(alias="from")]
    after: Annotated[Value, Field(alias="to")]


@dataclass(frozen=True, slots=True)
class Vote:
    """What one of the lender's models said; None where it did not answer."""

    model: str
    accepts: bool | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why there is no answer."""

    best_agreement: float
    dissenting: list[str]
    advice: str


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A record that should be accepted."""

    record: dict[str, Value]
    changes: list[Change]
    cost: float
    typicality: float | None
    trusted: bool
    expected_agreement: float
    votes: list[Vote]
    agreement: float | None
    lower_bound: float | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to one record."""

    id: UUID
    charged: int
    status: str
    error: str | None
    queries: int
    diagnosis: Diagnosis | None
    counterfactuals: list[Counterfactual] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request."""

    request_id: str
    model: str
    version: int
    target: str
    queries: int
    charged: int
    explanations: list[Explanation]
