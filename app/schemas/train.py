"""Bodies of /train and /jobs."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.db.service_tables import JobState
from app.schemas.fields import Body, ColumnName, Document, Name
from app.training.request import MOST_EFFORT, MOST_ORACLE_RECORDS, ORACLE_RECORDS, TrainRequest

Member = Literal["knn", "svm", "forest", "mlp", "xgboost", "catboost", "tabnet"]
MOST_QUERIES = 10**9
MOST_SEED = 2**31 - 1


class TrainBody(Body):
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
    dataset: UUID
    label: ColumnName | None = Field(None, description="The column that is predicted; by default the data set's own.")
    overrides: Document = Field(
        default_factory=dict,
        description='Changes of the inferred schema, as {"features": {"savings": {"direction": "up", "lower": 0}}}.',
    )
    ensemble: Name | None = Field(None, description="A registered ensemble; without one, `members` are trained here.")
    members: Annotated[list[Member], Field(min_length=1, max_length=7)] | None = Field(
        None, description="The models to train; by default all seven."
    )
    mode: Literal["quick", "tuned"] = Field("quick", description="Good defaults, or a search for the best settings.")
    preset: Literal["fast", "paper"] = "fast"
    effort: float = Field(1.0, gt=0, le=MOST_EFFORT, description="How long to train, as a multiple of the preset.")
    queries: int | None = Field(None, ge=0, le=MOST_QUERIES, description="Black-box queries that the job may use.")
    top_features: int | None = Field(None, ge=1, le=10_000, description="Keep only so many features.")
    oracle_records: int | None = Field(
        None,
        ge=0,
        le=MOST_ORACLE_RECORDS,
        description="Held-out records on which the version is compared with an oracle; 0: none. By default "
        f"{ORACLE_RECORDS} where the models are trained here, none with a registered ensemble. Each takes up to "
        "111 queries; where the budget or `queries` has no room for them, the comparison is left out "
        "and the job says so.",
    )
    seed: int = Field(0, ge=0, le=MOST_SEED)
    activate: bool = Field(True, description="Whether the new version answers at once; a first one always does.")

    def request(self) -> TrainRequest:
        """The same, as the trainer reads it."""
        chosen = {} if self.members is None else {"members": tuple(self.members)}
        return TrainRequest(
            dataset_id=self.dataset,
            label=self.label,
            overrides=self.overrides,
            ensemble=self.ensemble,
            mode=self.mode,
            preset=self.preset,
            effort=self.effort,
            queries=self.queries,
            top_features=self.top_features,
            seed=self.seed,
            activate=self.activate,
            oracle_records=self.oracle_records,
            **chosen,
        )


class JobAnswer(BaseModel):
    """A training job as it stands."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [
                {
                    "id": "5a3c1e0b-9f6c-4f0e-9a55-7c110a1f6f0f",
                    "model": "loans",
                    "state": "running",
                    "request": {"dataset_id": "0b9f6c1e-5a38-4f0e-9a55-0a1f6f0f7c11", "preset": "fast"},
                    "progress": {"phase": "flow", "step": 120, "steps": 400, "loss": 0.41, "queries": 8000},
                    "cancel_requested": False,
                    "attempts": 1,
                    "error": None,
                    "model_version_id": None,
                    "created_at": "2026-01-31T09:30:00Z",
                    "started_at": "2026-01-31T09:30:01Z",
                    "finished_at": None,
                }
            ]
        },
    )

    id: UUID
    model: str = Field(validation_alias="model_name")
    state: JobState
    request: dict[str, Any]
    progress: dict[str, Any] | None = Field(description="Phase, step, steps, loss, queries, eta_seconds.")
    cancel_requested: bool
    attempts: int = Field(description="How often the job was begun since it last got further.")
    error: str | None = Field(description="Why it failed, and what to do.")
    model_version_id: UUID | None = Field(description="The version that it published.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
