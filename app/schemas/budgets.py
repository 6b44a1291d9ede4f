"""Bodies of /budgets."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from app.db.entries import Step
from app.db.tables import Kind, Period
from app.ledger.ledger import MOST_QUERIES
from app.schemas.fields import Body

EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
Moment = Annotated[AwareDatetime | None, Query(ge=EARLIEST, le=LATEST, examples=["2026-01-01T00:00:00Z"])]


class BudgetBody(Body):
    """A limit, and how often it starts anew."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"limit": 100000, "period": "month"}]})

    limit: int = Field(ge=0, le=MOST_QUERIES, description="Queries; one is one record put to the ensemble.")
    period: Period | None = Field(
        None, description="How often it counts anew. Left out: as it is; a new budget has one limit without an end."
    )
    restart: bool = Field(
        False,
        description="Another period has counters of its own, which know nothing of what is used in the present one. "
        "Where queries are used, a change of the period must say true here.",
    )


class BudgetAnswer(BaseModel):
    """A budget in its present period."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "ensemble": "loans",
                    "period": "month",
                    "period_key": "2026-01",
                    "period_ends": "2026-02-01T00:00:00Z",
                    "limit": 100000,
                    "used": 8211,
                    "reserved": 64,
                    "remaining": 91725,
                }
            ]
        }
    )

    ensemble: str
    period: Period
    period_key: str
    period_ends: datetime | None
    limit: int
    used: int
    reserved: int = Field(description="Promised to requests and jobs that are under way.")
    remaining: int


class UsagePointAnswer(BaseModel):
    """Queries asked in the step that begins at `at`, and in all since the series began."""

    at: datetime
    dispatched: int
    total: int


class UsageAnswer(BaseModel):
    """The queries asked over time; steps without any are left out."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "ensemble": "loans",
                    "step": "day",
                    "since": "2026-01-01T00:00:00Z",
                    "until": "2026-01-31T00:00:00Z",
                    "points": [{"at": "2026-01-30T00:00:00Z", "dispatched": 211, "total": 211}],
                }
            ]
        }
    )

    ensemble: str
    step: Step
    since: datetime
    until: datetime
    points: list[UsagePointAnswer]


class EntryAnswer(BaseModel):
    """A line of the ledger: what it added to each counter."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [
                {
                    "id": 17,
                    "at": "2026-01-30T11:20:00Z",
                    "ensemble": "loans",
                    "period": "2026-01",
                    "kind": "dispatch",
                    "reservation": "5a3c1e0b-9f6c-4f0e-9a55-7c110a1f6f0f",
                    "query_limit": 0,
                    "reserved": 0,
                    "dispatched": 32,
                    "used": 0,
                }
            ]
        },
    )

    id: int
    at: datetime
    ensemble: str
    period: str
    kind: Kind
    reservation: UUID | None
    query_limit: int
    reserved: int
    dispatched: int
    used: int
