"""Bodies of the health routes."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LiveAnswer(BaseModel):
    """The process answers."""

    live: bool = Field(examples=[True])


class PartAnswer(BaseModel):
    """One part of the service."""

    name: Literal["database", "queue", "worker", "disk"]
    ready: bool
    reason: str | None


class ReadyAnswer(BaseModel):
    """Whether requests would be answered, and which part is in the way."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"ready": True, "parts": [{"name": "database", "ready": True, "reason": None}]}]
        }
    )

    ready: bool
    parts: list[PartAnswer]
