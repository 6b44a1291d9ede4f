"""What every error looks like: RFC 9457 problem+json."""

from typing import Any

from pydantic import BaseModel, Field

from app.problems import MEDIA_TYPE

REFERENCE = "#/components/schemas/Problem"


class FieldError(BaseModel):
    """One field that is wrong."""

    field: str = Field(examples=["records.0.age"])
    message: str = Field(examples=["Input should be a valid number"])


class Problem(BaseModel):
    """An error: `type` never changes, `detail` is one sentence for a person, `instance` is the request's id."""

    type: str = Field(examples=["/problems/not-found"])
    title: str = Field(examples=["There is nothing of that name"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["there is no model 'loans': see GET /models"])
    instance: str = Field(examples=["5f0c2d7e9b1a4c55a0d3f5f5b8a7e6d1"])
    errors: list[FieldError] = Field(default_factory=list, description="The fields that are wrong, if any.")


MEANINGS = {
    400: "The body or the request cannot be read.",
    401: "No key, or one that is unknown or revoked.",
    403: "The key's role, or the operator, does not allow it.",
    404: "There is nothing of that name or id.",
    406: "The answer has no such form.",
    409: "The present state does not allow it.",
    413: "The body, the table or the list is too large.",
    415: "The body's type or encoding is not read.",
    422: "A field, or what the fields say together, is wrong.",
    429: "The query budget does not allow it.",
    500: "Something went wrong inside.",
    502: "The lender's models did not answer.",
    503: "A part of the service is away or busy: come back after Retry-After.",
    504: "The deadline has passed.",
}
ALWAYS = (401, 403, 422, 500, 503)
WITH_BODY = (400, 413, 415)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may answer so, besides what every route may answer."""
    content = {MEDIA_TYPE: {"schema": {"$ref": REFERENCE}}}
    return {status: {"description": MEANINGS[status], "content": content} for status in sorted({*ALWAYS, *statuses})}
