"""Bodies of /explanations."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.schemas.explain import VoteAnswer

SUMMARY: dict[str, Any] = {
    "id": "6a1f0f7c-5a38-4f0e-9a55-0b9f6c1e0a1f",
    "model": "loans",
    "version": 1,
    "target": "approved",
    "status": "robust",
    "queries": 6,
    "request_id": "5f0c2d7e9b1a4c55a0d3f5f5b8a7e6d1",
    "position": 0,
    "created_at": "2026-01-31T09:30:00Z",
}


class ExplanationSummary(BaseModel):
    """A decision record in a list."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [SUMMARY]})

    id: UUID
    model: str
    version: int
    target: str
    status: str
    queries: int = Field(description="Records that were put to the lender's models; what was paid is in the ledger.")
    request_id: str
    position: int = Field(description="The record's place in its request, from 0.")
    created_at: datetime


class DecisionAnswer(ExplanationSummary):
    """A decision record: all that is needed to repeat the search, and what was answered."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [
                {
                    **SUMMARY,
                    "model_version_id": "0b9f6c1e-5a38-4f0e-9a55-0a1f6f0f7c11",
                    "digest": "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab",
                    "record": {"income": 24000, "loan_amount": 15000},
                    "order": {"k": 1, "seed": 0, "robustness": {"min_agreement": 0.8, "max_queries": 10}},
                    "answer": {"status": "robust", "queries": 6, "counterfactuals": []},
                }
            ]
        },
    )

    model_version_id: UUID
    digest: str = Field(description="The content hash of the model that answered.")
    record: dict[str, Any] = Field(description="As it was sent.")
    order: dict[str, Any] = Field(description="Constraints, k, robustness, price, candidates and seed.")
    answer: dict[str, Any] = Field(description="As it was answered, see POST /explain.")


class VerificationAnswer(BaseModel):
    """Whether a recourse that was promised still holds."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "6a1f0f7c-5a38-4f0e-9a55-0b9f6c1e0a1f",
                    "holds": True,
                    "agreement": 1.0,
                    "lower_bound": 0.83,
                    "min_agreement": 0.8,
                    "votes": [{"model": "forest", "accepts": True}, {"model": "mlp", "accepts": True}],
                    "charged": 1,
                    "model": "loans",
                    "promised_version": 1,
                    "asked_version": 2,
                }
            ]
        }
    )

    id: UUID
    holds: bool = Field(description="Whether the agreement reaches what was asked for when it was promised.")
    agreement: float
    lower_bound: float = Field(description="Of the agreement, at 90%.")
    min_agreement: float
    votes: list[VoteAnswer]
    charged: int = Field(description="Queries; 0 where the same was asked before.")
    model: str
    promised_version: int
    asked_version: int = Field(description="The version that is active now, whose ensemble was asked.")
