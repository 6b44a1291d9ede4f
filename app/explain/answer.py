"""The answer as JSON: its models are the one list of its fields, for the engine that writes it and for OpenAPI.

The keys are a promise: the HTTP contract, the decision records and `recourse explain --json`.
"""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SkipValidation

from app.explain.contract import RECORD, RawValue, RecordAnswer
from app.explain.words import Language, in_order, sentence
from models.data.policy import Lever, Policy
from models.search.answers import Explanation, PathPoint

ANSWER: dict[str, JsonValue] = {**RECORD, "loan_amount": 9500}


class ChangeAnswer(BaseModel):
    """One feature that the applicant would change."""

    model_config = ConfigDict(populate_by_name=True)

    feature: str
    before: SkipValidation[RawValue] = Field(alias="from")
    after: SkipValidation[RawValue] = Field(alias="to")


class ActionAnswer(BaseModel):
    """One thing to do: a change with what follows from it, or a wait."""

    kind: str = Field(description="change or wait")
    lever: Lever = Field(description="Who does it.")
    features: list[str] = Field(description="What it changes; the first is moved, the others follow.")
    months: int = Field(0, description="How long to wait.")
    sentence: str = Field("", description="In the request's language, in the units of the model's policy.")


class VoteAnswer(BaseModel):
    """What one of the lender's models said; null where it did not answer."""

    model: str
    accepts: bool | None


class CounterfactualAnswer(BaseModel):
    """A record that should be accepted; votes, agreement and its bound only where the lender's models were asked."""

    record: SkipValidation[dict[str, RawValue]]
    changes: list[ChangeAnswer]
    actions: list[ActionAnswer] = Field([], description="What to do, in order. Each counts once for max_changes.")
    cost: float = Field(description="The distance from the record in the model's encoded space, by the weights.")
    density: float
    typicality: float | None = Field(
        default=None, description="The share of real records of the target class that are less typical than it."
    )
    trusted: bool = Field(description="Whether it lies where real records lie, and is not among the least typical.")
    expected_agreement: float = Field(description="What the surrogate expects.")
    votes: list[VoteAnswer]
    agreement: float | None = Field(description="The share of all models that accept; a silent one does not.")
    lower_bound: float | None = Field(description="Of the agreement, at 90%; a silent model does not accept.")


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
    certificate: Literal["proven", "excluded_by_surrogate", "not_found"] = Field(
        "not_found",
        description="How sure it is: the rules leave nothing or all of it was asked; all of it was listed and what was "
        "not asked is expected to be refused; or there is too much to list.",
    )
    points: int | None = Field(None, description="How many records the applicant may become, where they were listed.")


class PointAnswer(BaseModel):
    """A point on the way to an answer: the first is the record, the last the answer."""

    stage: Literal["record", "flow", "local_search", "answer"] = Field(
        description="The record itself; then the flow's path that ended nearest to the answer; then what local search "
        "and verification changed after it, a few features at a time; the answer."
    )
    time: float = Field(description="Its place on the way, from 0 to 1 in equal steps.")
    record: SkipValidation[dict[str, RawValue]]
    cost: float
    expected_agreement: float


class FoundAnswer(BaseModel):
    """The answer to one record as the engine writes it."""

    status: Literal["robust", "valid", "already_target", "infeasible", "error"]
    error: str | None
    queries: int = Field(description="Records that were put to the lender's models for this answer; <= max_queries.")
    diagnosis: DiagnosisAnswer | None
    policy: str | None = Field(None, description="The version of the action policy that held.")
    notices: list[str] = Field(
        [], description="What to know of the record: a sentence for each number beyond those of the training data."
    )
    counterfactuals: list[CounterfactualAnswer]
    trajectory: list[PointAnswer] | None = Field(
        None, description="The way to the first answer, where it was asked for."
    )


class KeptAnswer(BaseModel):
    """The fields that differ each time the same is asked."""

    id: UUID = Field(description="Of the decision record, see GET /explanations/{id}.")
    charged: int = Field(
        description="How many of the `queries` the budget was charged for. What was asked before is remembered and "
        "free, a retry counts again: the same request may later be charged less, and gets the same answer."
    )


class ExplanationAnswer(FoundAnswer, KeptAnswer):
    """The answer to one record; `error` says what is wrong with the record itself."""


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
                            "notices": [],
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


def record_answer(
    answer: Explanation, policy: Policy, language: Language = "en", trajectory: Sequence[PathPoint] | None = None
) -> RecordAnswer:
    """The answer to one record, written once. A number that is not finite has no JSON: it becomes null."""
    found = FoundAnswer.model_validate(answer, from_attributes=True)
    for way, written in zip(answer.counterfactuals, found.counterfactuals, strict=True):
        written.actions = [
            ActionAnswer(
                kind=action.kind,
                lever=action.lever,
                features=list(action.features),
                months=action.months,
                sentence=sentence(action, policy, language),
            )
            for action in in_order(way.actions)
        ]
    if policy.features or policy.rules:
        found.policy = policy.version
    if trajectory is not None:
        path = [PointAnswer.model_validate(point, from_attributes=True) for point in trajectory]
        found = found.model_copy(update={"trajectory": path})
    body = found.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return RecordAnswer(answer.status.value, answer.queries, body, answer.charged)
