"""Bodies of /datasets."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

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
    """A data set as it was understood; change what is wrong with `schema_overrides` of POST /train."""

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
                }
            ]
        },
    )

    id: UUID
    name: str
    digest: str = Field(description="SHA-256 of the file as it was sent.")
    rows: int
    label: str | None
    described: dict[str, Any] = Field(
        alias="schema", description="Kinds, bounds, steps and categories, inferred; no classes without a label."
    )
    class_counts: dict[str, int] | None
    created_at: datetime
