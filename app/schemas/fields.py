"""Fields that several bodies share. Names are plain, so that they fit into a path, a log and every database."""

from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}$"
TEXT_PATTERN = r"^[^\x00-\x1f\x7f]*$"

Name = Annotated[
    str,
    StringConstraints(pattern=NAME_PATTERN, max_length=100),
    Field(description="Letters, digits, dots, dashes and underscores.", examples=["loans"]),
]
NameInPath = Annotated[str, Path(pattern=NAME_PATTERN, max_length=100, examples=["loans"])]


class Body(BaseModel):
    """A request's body: what it does not know, it refuses, so that a misspelt field is not lost in silence."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)
