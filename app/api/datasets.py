"""/datasets: upload tables, and see what was uploaded."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, File, Form, UploadFile

from app.api.dependencies import Caller, ClientCaller, DatabaseDep, KeyedRoute, ResourcesDep
from app.schemas.datasets import DatasetAnswer
from app.schemas.fields import TEXT_PATTERN, ColumnName
from app.schemas.paging import Page, PageQuery
from app.schemas.problem import WITH_BODY, problems
from app.services import datasets

router = APIRouter(prefix="/datasets", tags=["data sets"], route_class=KeyedRoute)

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


@router.post("", status_code=201, operation_id="upload_dataset", responses=problems(*WITH_BODY), openapi_extra=EXAMPLE)
def upload(
    file: Table,
    caller: ClientCaller,
    resources: ResourcesDep,
    name: Text = None,
    label: Text = None,
    categories: Categories = (),
) -> DatasetAnswer:
    """Upload a table. `label` is the column that the lender's models predict; it can also be named when training.

    `curl -F file=@loans.csv -F label=approved -H "Authorization: Bearer rk_..." localhost:8000/datasets`
    """
    sent = datasets.Upload(file.file, name or plain_name(file.filename), label, tuple(categories))
    return DatasetAnswer.model_validate(datasets.keep_upload(resources, caller.tenant_id, sent))


@router.get("", operation_id="list_datasets", responses=problems())
def page(order: PageQuery, caller: Caller, database: DatabaseDep) -> Page[DatasetAnswer]:
    """The data sets, newest first."""
    found = datasets.list_datasets(database, caller.tenant_id, order)
    return Page(items=[DatasetAnswer.model_validate(row) for row in found.rows], next=found.next)


@router.get("/{dataset_id}", operation_id="show_dataset", responses=problems(404))
def show(dataset_id: UUID, caller: Caller, database: DatabaseDep) -> DatasetAnswer:
    """One data set."""
    return DatasetAnswer.model_validate(datasets.find_dataset(database, caller.tenant_id, dataset_id))


def plain_name(filename: str | None) -> str:
    """The file's name without its folders and without what no list should show."""
    shown = "".join(letter for letter in PurePath(filename or "").name if letter.isprintable())
    return shown[:200] or "table"
