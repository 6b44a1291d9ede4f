"""What a training is asked for: `TrainRequest`, and the plan of its queries.

The body of POST /train is a `TrainRequest`; the job's row keeps the same document, and the trainer reads it back. The
command line makes a `TrainSettings`, the part that says how to train, whatever the data. Nothing here imports torch or
pandas: the API needs it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args
from uuid import UUID

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import to_json

from app.fields import Body, ColumnName, Document, Name, PolicyDocument
from models.config import PRESETS, Config, MeasureConfig
from models.errors import ConfigError

Encoding: TypeAlias = Literal["simplex", "circle"]
"""As models.space.codings has it."""
Member: TypeAlias = Literal["knn", "svm", "forest", "mlp", "xgboost", "catboost", "tabnet"]
MEMBER_NAMES = get_args(Member)
"""The names of models.ensemble.recipes, which imports what the plain install has not."""
MOST_EFFORT = 10.0
MOST_OVERRIDES = 200_000
"""Bytes as JSON: what changes of a schema of 500 features is smaller. It is kept for ever, with the job."""
MOST_QUERIES = 10**9
MOST_SEED = 2**31 - 1
"""scikit-learn takes no larger one."""
ORACLE_RECORDS, MOST_ORACLE_RECORDS = 10, 200
QUERIES_EACH = MeasureConfig().queries_each
LABELLED_RECORDS, LEAST_LABELLED = 60, 20
"""Labelled records that a registered ensemble is asked about; fewer than the second tell too little to be paid for."""


LOCAL_ONLY = ("members", "mode")
"""Fields that say how to train models here: a registered ensemble is asked as it is."""


def _usual_encoding(settings: Mapping[str, object]) -> Encoding:
    return "circle" if settings.get("preset") == "paper" else "simplex"


def _or_all(members: object) -> object:
    return MEMBER_NAMES if members is None else members


def _not_too_long(overrides: dict[str, Any]) -> dict[str, Any]:
    if (length := len(to_json(overrides))) > MOST_OVERRIDES:
        raise ValueError(f"it has {length} bytes as JSON, {MOST_OVERRIDES} is the limit: name only what changes")
    return overrides


class TrainSettings(Body):
    """How to train, whatever the data."""

    model_config = ConfigDict(frozen=True)

    members: Annotated[tuple[Member, ...], Field(min_length=1, max_length=7), BeforeValidator(_or_all)] = Field(
        default=MEMBER_NAMES, description="The models to train, where none are registered; by default all seven."
    )
    mode: Literal["quick", "tuned"] = Field(
        default="quick", description="Good defaults, or a search for the best settings."
    )
    preset: Literal["fast", "paper"] = "fast"
    encoding: Encoding = Field(
        default_factory=_usual_encoding,
        description="How far categories are from each other: simplex, those without an order all equally, those with "
        "one along a line; circle, as in the paper and in 0.1.0, by the order in which they are listed. By default "
        "circle with the preset paper, simplex with fast.",
    )
    effort: float = Field(
        default=1.0, gt=0, le=MOST_EFFORT, description="How long to train, as a multiple of the preset."
    )
    queries: int | None = Field(
        default=None,
        ge=0,
        le=MOST_QUERIES,
        description="Black-box queries that the training may use; by default what the preset plans.",
    )
    top_features: int | None = Field(default=None, ge=1, le=10_000, description="Keep only so many features.")
    seed: int = Field(default=0, ge=0, le=MOST_SEED)

    @model_validator(mode="after")
    def _each_member_once(self) -> Self:
        """ConfigError, which is told as it is: a model that votes twice would count twice in every agreement."""
        for name, times in Counter(self.members).items():
            if times > 1:
                raise ConfigError(f"members names '{name}' {times} times; each model votes once, so name it once.")
        return self

    def to_config(self, device: str) -> Config:
        """The preset as these settings change it, within its own number of queries."""
        config = PRESETS[self.preset]().scaled(self.effort)
        return replace(config, device=device, top_features=self.top_features)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """ConfigError for a document that is none of this kind, in one sentence that names the field."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            fault = error.errors()[0]
            field = ".".join(map(str, fault["loc"]))
            raise ConfigError(f"{field} is {fault['input']!r}: {fault['msg'].lower()}.") from error


class TrainRequest(TrainSettings):
    """A training: the surrogate and the flow that explain one ensemble."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "loans",
                    "dataset": "0b9f6c1e-5a38-4f0e-9a55-0a1f6f0f7c11",
                    "label": "approved",
                    "overrides": {"features": {"postcode": {"protected": True}, "income": {"direction": "up"}}},
                    "queries": 20000,
                }
            ]
        }
    )

    model: Name = Field(description="The model that the new version belongs to; made if it is new.")
    dataset_id: UUID = Field(validation_alias=AliasChoices("dataset", "dataset_id"))
    label: ColumnName | None = Field(
        default=None, description="The column that is predicted; by default the data set's own."
    )
    overrides: Annotated[Document, AfterValidator(_not_too_long)] = Field(
        default_factory=dict,
        description='Changes of the inferred schema, as {"features": {"savings": {"direction": "up", "lower": 0}}}.',
    )
    policy: PolicyDocument | None = Field(
        default=None, description="What can be done about a record (docs/POLICY.md); it may be replaced later."
    )
    ensemble: Name | None = Field(
        default=None, description="A registered ensemble; without one, `members` are trained here."
    )
    oracle_records: int | None = Field(
        default=None,
        ge=0,
        le=MOST_ORACLE_RECORDS,
        description="Held-out records on which the version is compared with an oracle; 0: none. By default "
        f"{ORACLE_RECORDS} where the models are trained here, none with a registered ensemble. Each takes up to "
        f"{QUERIES_EACH} queries; where the budget or `queries` has no room for them, the comparison is left out "
        "and the job says so.",
    )
    activate: bool = Field(
        default=True, description="Whether the new version answers at once; a first one always does."
    )

    @model_validator(mode="before")
    @classmethod
    def _members_or_ensemble(cls, body: object) -> object:
        """A registered ensemble is asked as it is: what is to be trained for it would be ignored."""
        if isinstance(body, dict) and (ensemble := body.get("ensemble")) is not None:
            given = " and ".join(name for name in LOCAL_ONLY if body.get(name) is not None)
            if given:
                fact = f"{given} would train models here, but ensemble {ensemble!r} is asked as it is"
                raise ConfigError(f"{fact}; leave out {given}, or leave out ensemble.")
        return body

    @property
    def compared(self) -> int:
        """The records for the oracle: some where the models are ours, none unasked where each query is the lender's."""
        if self.oracle_records is not None:
            return self.oracle_records
        return ORACLE_RECORDS if self.ensemble is None else 0

    def document(self) -> dict[str, Any]:
        """What the job's row keeps beside the model's name; `of_job` reads it back."""
        left_out = {
            "model",
            *(LOCAL_ONLY if self.ensemble else ()),
            *(["encoding"] if self.encoding == "circle" else []),
            *(["policy"] if self.policy is None else []),
        }
        return self.model_dump(mode="json", exclude=left_out)

    @classmethod
    def of_job(cls, document: Mapping[str, Any], model: str) -> Self:
        """The request of a job, whichever version of this program stored it: what it does not know, it leaves out."""
        known = {name: value for name, value in document.items() if name in cls.model_fields}
        known.setdefault("encoding", "circle")  # there was no other, and a job may have begun with it
        if known.get("ensemble") is not None:
            known = {name: value for name, value in known.items() if name not in LOCAL_ONLY}
        elif known.get("members") is not None:
            known["members"] = list(dict.fromkeys(known["members"]))
        return cls.read({**known, "model": model})


CHECK_SHARE = 10
"""Where the user sets a limit, at most one query in this many goes into the checks, and one into labelled records."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job's queries are for: at most `queries` records are bought to learn from, the others measure.

    skipped says why there is no comparison with the oracle although one was asked for, unlabelled why a registered
    ensemble is not compared with the labels.
    """

    config: Config
    queries: int
    measure: MeasureConfig
    skipped: str | None = None
    unlabelled: str | None = None

    @property
    def total(self) -> int:
        return self.queries + self.measure.queries

    def without_oracle(self, reason: str) -> "Plan":
        return replace(self, measure=replace(self.measure, oracle_records=0), skipped=reason)


def make_plan(request: TrainRequest, device: str) -> Plan:
    """Learning comes first: the comparison with the oracle is left out where the limit has no room for it."""
    config = request.to_config(device)
    labelled = 0 if request.ensemble is None else LABELLED_RECORDS
    measure = MeasureConfig(oracle_records=request.compared, labelled=labelled)
    if request.queries is None:
        return Plan(config, config.queries, measure)
    least, share = config.queries + measure.queries, request.queries // CHECK_SHARE
    measure = replace(measure, checks=min(measure.checks, share), labelled=min(labelled, share))
    unlabelled = None
    if labelled and share < LEAST_LABELLED:
        measure = replace(measure, labelled=0)
        fact = f"a tenth of the job's {request.queries} queries is fewer than {LEAST_LABELLED}"
        unlabelled = f"{fact}; allow it {LEAST_LABELLED * CHECK_SHARE} or more"
    left = request.queries - measure.queries
    if left >= config.queries:
        return Plan(config.within_queries(left), left, measure, unlabelled=unlabelled)
    alone = replace(measure, oracle_records=0)
    left = request.queries - alone.queries
    plan = Plan(config.within_queries(left), left, alone, unlabelled=unlabelled)
    if not request.compared:
        return plan
    compared = request.compared * measure.queries_each
    fact = f"{request.compared} records would take {compared} of the job's {request.queries} queries"
    return plan.without_oracle(f"{fact}; allow it {least}, or compare fewer records")
