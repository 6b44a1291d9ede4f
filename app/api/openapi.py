"""The OpenAPI document: what FastAPI writes, and the one form that every error has."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from app.schemas.problem import FieldError, Problem

TAGS = [
    {"name": "explain", "description": "Records that were refused, and the nearest ones that would not be."},
    {"name": "data sets", "description": "Tables to learn from."},
    {"name": "training", "description": "Jobs that make versions of models."},
    {"name": "models", "description": "Versions, and which of them answers."},
    {"name": "ensembles", "description": "The lender's models."},
    {"name": "budgets", "description": "How often the lender's models may be asked, and how often they were."},
    {"name": "keys", "description": "Who may do what."},
    {"name": "operations", "description": "Health and metrics."},
]


def install(app: FastAPI) -> None:
    """Let the application describe itself so; the document is made once."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _write(app)
        return app.openapi_schema

    # FastAPI's own way to do this.
    app.openapi = document  # type: ignore[method-assign]


def _write(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=TAGS
    )
    _, definitions = models_json_schema(
        [(Problem, "serialization"), (FieldError, "serialization")], ref_template="#/components/schemas/{model}"
    )
    schemas = document["components"]["schemas"]
    schemas.update(definitions["$defs"])
    # `errors` is there only where fields are wrong.
    schemas["Problem"]["required"] = [name for name in schemas["Problem"]["required"] if name != "errors"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return document
