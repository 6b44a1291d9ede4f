"""Answers as JSON. The keys are a promise: the HTTP contract, the decision records and `recourse explain --json`.

Bodies of POST /explain and of KServe's form of it.
"""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic_core import to_json

from app.explain.contract import RECORD, RawValue, RecordAnswer
from models.data.records import Value
from models.search.answers import Counterfactual, Diagnosis, Explanation, PathPoint

Document = dict[str, object]


def record_answer(answer: Explanation, trajectory: Sequence[PathPoint] | None = None) -> RecordAnswer:
    """The answer, written once."""
    document = explanation_document(answer)
    if trajectory is not None:
        document["trajectory"] = [_point_document(point) for point in trajectory]
    # What is not a finite number has no JSON; "null" says that it is not known.
    return RecordAnswer(answer.status.value, answer.queries, to_json(document, inf_nan_mode="null"), answer.charged)


def explanation_document(answer: Explanation) -> Document:
    return {
        "status": answer.status.value,
        "error": answer.error,
        "queries": answer.queries,
        "diagnosis": None if answer.diagnosis is None else _diagnosis_document(answer.diagnosis),
        "counterfactuals": [_counterfactual_document(found) for found in answer.counterfactuals],
    }


def _diagnosis_document(diagnosis: Diagnosis) -> Document:
    return {
        "best_agreement": diagnosis.best_agreement,
        "verified": diagnosis.verified,
        "dissenting": list(diagnosis.dissenting),
        "binding": [{"feature": entry.feature, "gain": entry.gain} for entry in diagnosis.binding],
        "advice": diagnosis.advice,
    }


def _counterfactual_document(found: Counterfactual) -> Document:
    return {
        "record": found.record,
        "changes": [{"feature": c.feature, "from": c.before, "to": c.after} for c in found.changes],
        "cost": found.cost,
        "density": found.density,
        "typicality": found.typicality,
        "trusted": found.trusted,
        "expected_agreement": found.expected_agreement,
        "votes": [{"model": vote.model, "accepts": vote.accepts} for vote in found.votes],
        "agreement": found.agreement,
        "lower_bound": found.lower_bound,
    }


def _point_document(point: PathPoint) -> dict[str, float | dict[str, Value]]:
    return {
        "time": point.time,
        "record": point.record,
        "cost": point.cost,
        "expected_agreement": point.expected_agreement,
    }


ANSWER: dict[str, JsonValue] = {**RECORD, "loan_amount": 9500}


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
