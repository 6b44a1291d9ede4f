"""Bodies of POST /explain and of KServe's form of it."""

from typing import Annotated, Any, Literal, cast
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
)

from app.explaining.request import ExplainRequest
from app.schemas.fields import Body, DeadlineMs, Name
from models.rules import Range
from models.schema import Direction

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
ANSWER: dict[str, JsonValue] = {**RECORD, "loan_amount": 9500}


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


class InstancesBody(AskedBody):
    """The same, as KServe's v1 protocol has it: the model is in the path, the records are instances."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"instances": [RECORD], "target": "approved"}]})

    instances: Records

    def to_request(self, model: str) -> ExplainRequest:
        return self.request(model, self.instances)


class ChangeAnswer(BaseModel):
    """One feature that the applicant would change."""

    model_config = ConfigDict(populate_by_name=True)

    feature: str
    before: RawValue = Field(alias="from")
    after: RawValue = Field(alias="to")


class VoteAnswer(BaseModel):
    """What one of the lender's models said; null where it did not answer."""

    model: str
    accepts: bool | None


class CounterfactualAnswer(BaseModel):
    """A record that should be accepted; votes, agreement and its bound only where the lender's models were asked."""

    record: dict[str, RawValue]
    changes: list[ChangeAnswer]
    cost: float
    density: float
    typicality: float | None = Field(
        default=None, description="The share of real records of the target class that are less typical than it."
    )
    trusted: bool = Field(description="Whether it lies where real records lie, and is not among the least typical.")
    expected_agreement: float = Field(description="What the surrogate expects.")
    votes: list[VoteAnswer]
    agreement: float | None = Field(description="The share of all models that accept; a silent one does not.")
    lower_bound: float | None = Field(description="Of the agreement, at 90%.")


class BindingAnswer(BaseModel):
    """A feature that may not move as it would have to."""

    feature: str
    gain: float


class DiagnosisAnswer(BaseModel):
    """Why there is no answer."""

    best_agreement: float
    verified: bool
    dissenting: list[str]
    binding: list[BindingAnswer]
    advice: str


class PointAnswer(BaseModel):
    """A point on the way to an answer."""

    time: float
    record: dict[str, RawValue]
    cost: float
    expected_agreement: float


class ExplanationAnswer(BaseModel):
    """The answer to one record; `error` says what is wrong with the record itself."""

    id: UUID = Field(description="Of the decision record, see GET /explanations/{id}.")
    charged: int = Field(
        description="How many of the `queries` the budget was charged for. What was asked before is remembered and "
        "free, a retry counts again: the same request may later be charged less, and gets the same answer."
    )
    status: Literal["robust", "valid", "already_target", "infeasible", "error"]
    error: str | None
    queries: int = Field(description="Records that were put to the lender's models for this answer; <= max_queries.")
    diagnosis: DiagnosisAnswer | None
    counterfactuals: list[CounterfactualAnswer]
    trajectory: list[PointAnswer] | None = Field(None, description="Only where it was asked for.")


class ExplainAnswerBody(BaseModel):
    """One explanation a record, in the order of the records."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "request_id": "5f0c2d7e9b1a4c55a0d3f5f5b8a7e6d1",
                    "model": "loans",
                    "version": 1,
                    "target": "approved",
                    "seed": 0,
                    "queries": 6,
                    "charged": 4,
                    "explanations": [
                        {
                            "id": "6a1f0f7c-5a38-4f0e-9a55-0b9f6c1e0a1f",
                            "charged": 4,
                            "status": "robust",
                            "error": None,
                            "queries": 6,
                            "diagnosis": None,
                            "counterfactuals": [
                                {
                                    "record": ANSWER,
                                    "changes": [{"feature": "loan_amount", "from": 15000, "to": 9500}],
                                    "cost": 0.92,
                                    "density": 1.7,
                                    "typicality": 0.41,
                                    "trusted": True,
                                    "expected_agreement": 0.94,
                                    "votes": [{"model": "forest", "accepts": True}, {"model": "mlp", "accepts": True}],
                                    "agreement": 1.0,
                                    "lower_bound": 0.58,
                                }
                            ],
                        }
                    ],
                }
            ]
        }
    )

    request_id: str
    model: str
    version: int
    target: str
    seed: int
    queries: int = Field(description="Records that were put to the lender's models, of all explanations together.")
    charged: int = Field(description="What the budget was charged for this request: the same number is in the ledger.")
    explanations: list[ExplanationAnswer]
