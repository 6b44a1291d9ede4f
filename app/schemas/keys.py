"""Bodies of /keys."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from app.db.service_tables import Role
from app.schemas.fields import TEXT_PATTERN, Body


class KeyBody(Body):
    """A key to make."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "loan system", "role": "client"}]})

    name: Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=TEXT_PATTERN)]
    role: Role = Role.CLIENT


class KeyAnswer(BaseModel):
    """A key, without what opens the door."""

    model_config = ConfigDict(from_attributes=True)

    id: UUID
    name: str
    role: Role
    prefix: str = Field(description="The first eight characters after rk_, to tell keys apart.", examples=["3f9a1c07"])
    created_at: datetime
    revoked_at: datetime | None


class NewKeyAnswer(KeyAnswer):
    """A new key: the only time that it is shown."""

    key: str = Field(description="Shown once: only its digest is kept.", examples=["rk_3f9a1c07..."])
