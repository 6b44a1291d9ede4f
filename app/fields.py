"""Fields that several bodies share. Names are plain, so that they fit into a path, a log and every database."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import to_json

from models.data.policy import Policy

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}$"
DEEPEST = 20
"""An answer that is nested ten times as deep could not be written any more."""
TEXT_PATTERN = r"^[^\x00-\x1f\x7f]*$"

Name = Annotated[
    str,
    StringConstraints(pattern=NAME_PATTERN, max_length=100),
    Field(description="Letters, digits, dots, dashes and underscores.", examples=["loans"]),
]
ColumnName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=TEXT_PATTERN)]
NameInPath = Annotated[str, Path(pattern=NAME_PATTERN, max_length=100, examples=["loans"])]
DeadlineMs = Annotated[int | None, Field(ge=1, le=2**31, description="After this the request is dropped (504).")]
"""None: the operator's default."""


def _finite(document: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity, but 1e999 is read as one; Postgres would refuse to keep it. Nor is it endlessly deep."""
    level: list[Any] = [document]
    for _ in range(DEEPEST):
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [value for values in inner for value in values if isinstance(value, dict | list)]
    if level:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    try:
        json.dumps(document, allow_nan=False)
    except ValueError as error:
        raise ValueError("a number is too large: at most about 1.8e308") from error
    return document


Document = Annotated[dict[str, Any], AfterValidator(_finite)]
MOST_POLICY = 200_000
"""Bytes of a policy as JSON; a policy of 500 features and 1,000 rules is smaller."""


def _readable(policy: dict[str, Any]) -> dict[str, Any]:
    """SchemaError, which is told as it is, for what is no policy."""
    if (length := len(to_json(policy))) > MOST_POLICY:
        raise ValueError(f"it has {length} bytes as JSON, {MOST_POLICY} is the limit")
    Policy.from_json(policy)
    return policy


PolicyDocument = Annotated[Document, AfterValidator(_readable)]
"""A JSON object that is kept as it is."""


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("in UTC it lies before the year 1 or after the year 9999") from error


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A date and time with its offset."""


MOST_UNKNOWN = 20


class Body(BaseModel):
    """A request's body: what it does not know, it refuses, so that a misspelt field is not lost in silence.

    Many unknown fields are told as one error: each takes a kilobyte, and holds up everybody else.
    """

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)

    @model_validator(mode="before")
    @classmethod
    def few_unknown(cls, data: object) -> object:
        if isinstance(data, dict) and len(data) > len(cls.model_fields) + MOST_UNKNOWN:
            raise ValueError(f"it has {len(data)} fields, but knows {len(cls.model_fields)}: send only those")
        return data
