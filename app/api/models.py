"""/models: versions, and which of them answers."""

from datetime import datetime
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.api.datasets import LOANS_SCHEMA
from app.api.dependencies import (
    AnalystCaller,
    Caller,
    DatabaseDep,
    IdempotencyKey,
    KeyedRoute,
    Page,
    PageQuery,
    ResourcesDep,
    replied,
)
from app.api.problems import WITH_BODY, problems
from app.db.tables import AnyRow
from app.fields import Body, NameInPath, PolicyDocument
from app.idempotency import StoredReply
from app.registry import queries
from models.data.policy import Policy

MODEL: dict[str, Any] = {"name": "loans", "active_version": 2, "created_at": "2026-01-31T09:30:00Z"}
VERSION: dict[str, Any] = {
    "id": "9a55c110-5a38-4f0e-b9f6-0a1f6f0f7c11",
    "number": 2,
    "job_id": "5a3c1e0b-9f6c-4f0e-9a55-7c110a1f6f0f",
    "digest": "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab",
    "ensemble": "loans",
    "ensemble_version": "5a3c1e0b",
    "schema": LOANS_SCHEMA,
    "classes": ["no", "yes"],
    "metrics": {
        "expected": {"records": 200, "answered": 1.0, "agreement": 0.95, "cost": 1.87, "changes": 3.4},
        "verified": {"records": 50, "agreement": 0.96, "unanimous": 0.78},
        "beside_oracle": {
            "records": 10,
            "queries": 942,
            "cost_ratio": 0.91,
            "unverified": {"validity": 0.96, "unanimity": 0.7, "cost": 1.87},
            "verified": {"validity": 1.0, "unanimity": 1.0, "cost": 1.89},
            "oracle": {"validity": 1.0, "unanimity": 1.0, "cost": 2.07},
        },
        "queries": 1480,
        "rows": 3600,
        "members": {"knn": 0.83, "forest": 0.87},
    },
    "frontier": [{"price": 0.1, "cost": 1.2, "agreement": 0.99}],
    "created_at": "2026-01-31T09:42:00Z",
}


class ModelAnswer(BaseModel):
    """A model; its active version answers."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [MODEL]})

    name: str
    active_version: int | None
    created_at: datetime


class VersionAnswer(BaseModel):
    """A version: what was trained, how good it is, and the hash of its files."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [VERSION]})

    id: UUID
    number: int
    job_id: UUID
    digest: str = Field(description="Hash of the content; checked whenever it is loaded.")
    ensemble: str
    ensemble_version: str
    schema_: dict[str, Any] = Field(alias="schema")
    classes: list[str]
    metrics: Any = Field(description="Quality, measured on records that training did not see.")
    frontier: Any = Field(description="What robustness costs: one point for each price.")
    created_at: datetime


class ModelDetail(ModelAnswer):
    """A model and its versions, the newest first; `next` goes on with older ones."""

    model_config = ConfigDict(json_schema_extra={"examples": [MODEL | {"versions": [VERSION], "next": None}]})

    versions: list[VersionAnswer]
    next: str | None


class ActivateBody(Body):
    """The version that is to answer from now on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 1}]})

    version: int = Field(ge=1, lt=2**63)


class PolicyBody(Body):
    """What can be done about a record: the action policy of a model, in the language of docs/POLICY.md."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"policy": {"format": 1, "features": {"savings": {"move": "up"}}}}]}
    )

    policy: PolicyDocument | None = Field(description="null: each version has the policy that came with its training.")


class PolicyAnswer(BaseModel):
    """The policy of a model; `version` is what decision records name."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "loans",
                    "version": "policy-0123456789abcdef",
                    "policy": {"format": 1, "features": {"savings": {"move": "up"}}, "rules": []},
                }
            ]
        }
    )

    model: str
    version: str | None
    policy: dict[str, Any] | None

    @classmethod
    def of(cls, row: AnyRow) -> "PolicyAnswer":
        version = None if row.policy is None else Policy.from_json(row.policy).version
        return cls(model=row.name, version=version, policy=row.policy)


router = APIRouter(prefix="/models", tags=["models"], route_class=KeyedRoute)


@router.get("", operation_id="list_models", responses=problems())
def page(order: PageQuery, caller: Caller, database: DatabaseDep) -> Page[ModelAnswer]:
    """The models, newest first."""
    return Page[ModelAnswer].of(database.read(queries.models_page, caller.tenant_id, order))


@router.get("/{name}", operation_id="show_model", responses=problems(404))
def show(name: NameInPath, order: PageQuery, caller: Caller, database: DatabaseDep) -> ModelDetail:
    """A model and a page of its versions, with metrics and the cost-validity frontier."""
    with database.reading() as connection:
        model = queries.find_model(connection, caller.tenant_id, name)
        versions = queries.versions_page(connection, caller.tenant_id, model.id, order)
    head = ModelAnswer.model_validate(model).model_dump()
    shown = [VersionAnswer.model_validate(row) for row in versions.rows]
    return ModelDetail(**head, versions=shown, next=versions.next)


@router.get("/{name}/policy", operation_id="show_policy", responses=problems(404))
def show_policy(name: NameInPath, caller: Caller, database: DatabaseDep) -> PolicyAnswer:
    """The policy that answers keep: the last that was set here, or that came with a training."""
    return PolicyAnswer.of(database.read(queries.find_model, caller.tenant_id, name))


@router.put("/{name}/policy", operation_id="set_policy", responses=problems(*WITH_BODY, 404))
def put_policy(name: NameInPath, body: PolicyBody, caller: AnalystCaller, database: DatabaseDep) -> PolicyAnswer:
    """Replace the policy, without training. Requests that have begun keep the one that they began with."""
    with database.writing() as connection:
        return PolicyAnswer.of(queries.set_policy(connection, caller.tenant_id, name, body.policy))


@router.post(
    "/{name}/activate",
    operation_id="activate_version",
    response_model=ModelAnswer,
    responses=problems(*WITH_BODY, 404, 409),
)
def activate(
    name: NameInPath, body: ActivateBody, caller: AnalystCaller, resources: ResourcesDep, keyed: IdempotencyKey
) -> Response:
    """Let another version answer: a newer one, or an older one to roll back."""

    def work(connection: Connection) -> StoredReply:
        row = queries.activate(connection, caller.tenant_id, name, body.version)
        return StoredReply(200, ModelAnswer.model_validate(row).model_dump_json())

    keyed = None if keyed is None else keyed.on(name)
    return replied(resources.idempotent.once(caller.tenant_id, "/activate", keyed, work))
