"""What the client hands out: the service's JSON as frozen pydantic models.

They are lenient: what a newer service sends besides is kept in `model_extra`. A test compares them with its OpenAPI.
"""

from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

Item = TypeVar("Item", bound="Typed")
Value = bool | int | float | str | None
"""A value of a record, as JSON has it."""


class Typed(BaseModel):
    """What all of them share."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True, protected_namespaces=())


class Page(Typed, Generic[Item]):
    """A part of a list; `next` is the cursor of the following part, None at the end."""

    items: list[Item]
    next: str | None = None


class Change(Typed):
    """One feature that would change."""

    feature: str
    before: Value = Field(alias="from")
    after: Value = Field(alias="to")


class Vote(Typed):
    """What one of the lender's models said; None where it did not answer."""

    model: str
    accepts: bool | None


class Action(Typed):
    """One thing to do. kind: change or wait; lever: applicant, lender or time; features: the first is moved, the others
    follow."""

    kind: str
    lever: str
    features: list[str]
    months: int = 0
    sentence: str = ""


class Counterfactual(Typed):
    """A record that should be accepted; agreement and lower_bound are None where the lender's models were not asked."""

    record: dict[str, Value]
    changes: list[Change]
    actions: list[Action] = []
    cost: float
    density: float | None
    typicality: float | None = None
    trusted: bool
    expected_agreement: float
    votes: list[Vote]
    agreement: float | None
    lower_bound: float | None


class Binding(Typed):
    """A feature that may not move as it would have to: the expected agreement that one change of it would bring."""

    feature: str
    gain: float


class Diagnosis(Typed):
    """Why there is no answer."""

    best_agreement: float
    verified: bool
    dissenting: list[str]
    binding: list[Binding]
    advice: str
    certificate: str = "not_found"
    points: int | None = None


class Point(Typed):
    """A point on the way to an answer, at equal times from 0 to 1. stage: record, flow, local_search or answer."""

    stage: str = ""
    time: float
    record: dict[str, Value]
    cost: float
    expected_agreement: float


class Finding(Typed):
    """What was found for one record. status: robust, valid, already_target, infeasible or error."""

    status: str
    error: str | None
    queries: int
    diagnosis: Diagnosis | None
    policy: str | None = None
    notices: list[str] = []
    counterfactuals: list[Counterfactual]
    trajectory: list[Point] | None = None


class Explanation(Finding):
    """The answer of the service to one record: `id` is that of its decision record, `charged` what the budget paid."""

    id: UUID
    charged: int


class Answer(Typed):
    """The answer to one request, one explanation a record."""

    request_id: str
    model: str
    version: int
    target: str
    seed: int
    queries: int
    charged: int
    explanations: list[Explanation]


class DecisionSummary(Typed):
    """A decision record in a list."""

    id: UUID
    model: str
    version: int
    target: str
    status: str
    queries: int
    request_id: str
    position: int
    created_at: datetime


class Decision(DecisionSummary):
    """A decision record: all that is needed to repeat the search, and what was answered."""

    model_version_id: UUID
    digest: str
    record: dict[str, Any]
    order: dict[str, Any]
    answer: dict[str, Any]


class Verification(Typed):
    """Whether a recourse that was promised still holds."""

    id: UUID
    holds: bool
    agreement: float
    lower_bound: float
    min_agreement: float
    votes: list[Vote]
    charged: int
    model: str
    promised_version: int
    asked_version: int


class DataSet(Typed):
    """An uploaded table."""

    id: UUID
    name: str
    digest: str
    rows: int
    label: str | None
    schema_: dict[str, Any] = Field(alias="schema")
    class_counts: dict[str, int] | None
    created_at: datetime
    notices: list[str]


class JobSummary(Typed):
    """A training in a list. state: queued, running, done, failed or cancelled."""

    id: UUID
    model: str
    state: str
    progress: dict[str, Any] | None
    cancel_requested: bool
    attempts: int
    error: str | None
    model_version_id: UUID | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Job(JobSummary):
    """A training, with what was asked for."""

    request: dict[str, Any]


class Event(Typed):
    """Something that happened to a job; `kind` is state, progress or log."""

    id: str
    kind: str
    data: dict[str, Any]


class Model(Typed):
    """A model; its active version answers."""

    name: str
    active_version: int | None
    created_at: datetime


class ModelPolicy(Typed):
    """The action policy of a model; `version` is what answers name. None: that of each version."""

    model: str
    version: str | None
    policy: dict[str, Any] | None


class Version(Typed):
    """A version of a model, and the schema of the records that it takes."""

    id: UUID
    number: int
    job_id: UUID
    digest: str
    ensemble: str
    ensemble_version: str
    schema_: dict[str, Any] = Field(alias="schema")
    classes: list[str]
    metrics: Any
    frontier: Any
    created_at: datetime


class ModelVersions(Model):
    """A model and a page of its versions, the newest first."""

    versions: list[Version]
    next: str | None


class Ensemble(Typed):
    """The lender's models under one name; kind: local or remote."""

    name: str
    kind: str
    version: str
    members: list[str] | None
    classes: list[str] | None
    schema_: dict[str, Any] | None = Field(alias="schema")
    endpoints: list[dict[str, Any]] | None
    created_at: datetime


class Prediction(Typed):
    """What the ensemble says of one record: probabilities by member; None where one did not answer."""

    probabilities: dict[str, list[float] | None]
    error: str | None


class Predictions(Typed):
    """The predictions in the order of the records; charged: new queries, reused: answers bought before."""

    ensemble: str
    version: str
    classes: list[str]
    predictions: list[Prediction]
    charged: int
    reused: int


class Budget(Typed):
    """Queries of the present period."""

    ensemble: str
    period: str
    period_key: str
    period_ends: datetime | None
    limit: int
    used: int
    reserved: int
    remaining: int


class UsagePoint(Typed):
    """Queries that were dispatched in one step of time, and all until then; what was corrected in it."""

    at: datetime
    dispatched: int
    total: int
    corrected: int = 0


class Usage(Typed):
    """Queries over time."""

    ensemble: str
    step: str
    since: datetime
    until: datetime
    points: list[UsagePoint]


class Entry(Typed):
    """One row of a budget's ledger."""

    id: int
    at: datetime
    ensemble: str
    period: str
    kind: str
    reservation: str | None
    query_limit: int
    reserved: int
    dispatched: int
    used: int
    reason: str | None = None
    made_by: str | None = None
    reverses: int | None = None
    number: int | None = None
    mac: str | None = None


class Key(Typed):
    """An API key without its text; role: viewer, client, analyst or admin."""

    id: UUID
    name: str
    role: str
    prefix: str
    created_at: datetime
    revoked_at: datetime | None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None


class NewKey(Key):
    """A key that was just made: its text is never shown again."""

    key: str


class Part(Typed):
    """A part of the service, and why it is not ready."""

    name: str
    ready: bool
    reason: str | None
    needed_for: list[str] = Field(default_factory=list)


class Readiness(Typed):
    """Whether the service can explain now (`ready`, `explaining`), and whether it can train."""

    ready: bool
    explaining: bool | None = None
    training: bool | None = None
    parts: list[Part]
