"""Bodies of /datasets."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, computed_field

from models.protected import protected_kind, protected_notice

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
    described: dict[str, Any] = Field(
        alias="schema", description="Kinds, bounds, steps and categories, inferred; no classes without a label."
    )
    class_counts: dict[str, int] | None
    created_at: datetime

    @computed_field  # type: ignore[prop-decorator]
    @property
    def notices(self) -> list[str]:
        """What to know before training: columns that were taken for protected attributes."""
        names = [str(feature["name"]) for feature in self.described.get("features", [])]
        return [protected_notice(name, kind) for name in names if (kind := protected_kind(name)) and name != self.label]
