"""/datasets: upload tables, and see what was uploaded and how it was understood."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, File, Form, Response, UploadFile
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from sqlalchemy import Connection

from app.api.dependencies import (
    AnalystCaller,
    Caller,
    DatabaseDep,
    KeyedRoute,
    KeyHeader,
    Page,
    PageQuery,
    ResourcesDep,
    replied,
)
from app.api.problems import WITH_BODY, problems
from app.datasets import service
from app.fields import TEXT_PATTERN, ColumnName
from app.idempotency import KeyedBody, StoredReply
from app.resources import Resources

LOANS_SCHEMA: dict[str, Any] = {
    "version": 1,
    "label": "approved",
    "classes": ["no", "yes"],
    "features": [
        {"name": "income", "kind": "integer", "lower": 11000, "upper": 250000, "step": 1.0, "nullable": False},
        {"name": "housing", "kind": "categorical", "categories": ["own", "rent"], "nullable": False},
    ],
}


class DatasetAnswer(BaseModel):
    """A data set as it was understood; change what is wrong with `overrides` of POST /train."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [
                {
                    "id": "0b9f6c1e-5a38-4f0e-9a55-0a1f6f0f7c11",
                    "name": "loans.csv",
                    "digest": "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab",
                    "rows": 4000,
                    "label": "approved",
                    "schema": LOANS_SCHEMA,
                    "class_counts": {"no": 2213, "yes": 1787},
                    "created_at": "2026-01-31T09:30:00Z",
                    "notices": [],
                }
            ]
        },
    )

    id: UUID
    name: str
    digest: str = Field(description="SHA-256 of the file as it was sent.")
    rows: int
    label: str | None
    schema_: dict[str, Any] = Field(
        alias="schema", description="Kinds, bounds, steps and categories, inferred; no classes without a label."
    )
    class_counts: dict[str, int] | None
    created_at: datetime
    notices: list[str] = Field(
        description="What to know before training: columns that were taken for protected attributes, columns that are "
        "left out because they name the rows or copy the label, codes for missing values."
    )

    @field_validator("notices", mode="before")
    @classmethod
    def told(cls, notices: object, info: ValidationInfo) -> object:
        """A data set of an earlier version has none of its own."""
        return service.told_by_names(info.data["schema_"], info.data["label"]) if notices is None else notices


router = APIRouter(prefix="/datasets", tags=["data sets"], route_class=KeyedRoute)
WAIT_SECONDS = 30.0
"""How long an upload waits for another one of the same tenant."""

Text = Annotated[str | None, Form(min_length=1, max_length=200, pattern=TEXT_PATTERN)]
Categories = Annotated[
    Sequence[ColumnName],
    Form(max_length=500, description="Columns that are categories even if they look like numbers or dates."),
]
Table = Annotated[UploadFile, File(description="CSV (UTF-8, commas, a header line) or Parquet.")]

EXAMPLE = {
    "requestBody": {
        "content": {
            "multipart/form-data": {
                "example": {"file": "income,housing,approved\n32000,rent,no\n...", "label": "approved"}
            }
        }
    }
}


@router.post(
    "",
    status_code=201,
    operation_id="upload_dataset",
    response_model=DatasetAnswer,
    responses=problems(*WITH_BODY, 409),
    openapi_extra=EXAMPLE,
)
async def upload(
    file: Table,
    caller: AnalystCaller,
    resources: ResourcesDep,
    name: Text = None,
    label: Text = None,
    categories: Categories = (),
    key: KeyHeader = None,
) -> Response:
    """Upload a table. `label` is the column that the lender's models predict; it can also be named when training.

    `curl -F file=@loans.csv -F label=approved -H "Authorization: Bearer rk_..." localhost:8000/datasets`
    """
    sent = service.Upload(file.file, name or plain_name(file.filename), label, tuple(categories))
    keep = partial(_keep, resources, caller.tenant_id, sent, key)
    return replied(await resources.tables.run(caller.tenant_id, keep, WAIT_SECONDS))


def _keep(resources: Resources, tenant_id: int, sent: service.Upload, key: str | None) -> StoredReply:
    limits = service.table_limits(resources.settings)
    described = service.read_upload(resources.artifacts, limits, tenant_id, sent)

    def work(connection: Connection) -> StoredReply:
        row = service.keep_dataset(connection, tenant_id, described)
        return StoredReply(201, DatasetAnswer.model_validate(row).model_dump_json(by_alias=True))

    # Of the file, not of the body: whoever sends it again marks the parts of the form by other signs.
    keyed = None if key is None else KeyedBody(key, described.digest).on(sent.name, sent.label, sent.categories)
    return resources.idempotent.once(tenant_id, "/datasets", keyed, work)


@router.get("", operation_id="list_datasets", responses=problems())
def page(order: PageQuery, caller: Caller, database: DatabaseDep) -> Page[DatasetAnswer]:
    """The data sets, newest first."""
    return Page[DatasetAnswer].of(database.read(service.datasets_page, caller.tenant_id, order))


@router.get("/{dataset_id}", operation_id="show_dataset", responses=problems(404))
def show(dataset_id: UUID, caller: Caller, database: DatabaseDep) -> DatasetAnswer:
    """One data set."""
    return DatasetAnswer.model_validate(service.find_dataset(database, caller.tenant_id, dataset_id))


def plain_name(filename: str | None) -> str:
    """The file's name without its folders and without what no list should show."""
    shown = "".join(letter for letter in PurePath(filename or "").name if letter.isprintable())
    return shown[:200] or "table"
