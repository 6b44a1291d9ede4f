"""The HTTP application: its parts are handed in, its routers are mounted here.

/docs: the page that lets a person try the calls, with its files from here and not from elsewhere.

The OpenAPI document: what FastAPI writes, and the one form that every error has.

What has to be done once in a while: expire reservations of crashed processes, ring for jobs that wait, forget.
"""

from collections.abc import Callable
from datetime import timedelta
from importlib.resources import files
from typing import Any

import structlog
from anyio import sleep, to_thread
from fastapi import APIRouter, FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from pydantic.json_schema import models_json_schema
from starlette.staticfiles import StaticFiles

from app import idempotency
from app.api import budgets, datasets, ensembles, explain, keys, models, operations, problems, train
from app.api.middleware import BodyLimit, RequestLog
from app.api.problems import FieldError, Problem
from app.api.shortcut import ExplainShortcut
from app.auth import queries
from app.dashboard import pages
from app.db.engine import Database
from app.db.tables import utc_now
from app.explain.contract import Explainer
from app.metrics import Metrics
from app.resources import Resources, gather
from app.settings import Settings
from app.train.queue import TrainingQueue
from app.train.service import reconcile


def create_app(
    settings: Settings,
    database: Database,
    explainer: Explainer,
    queue: TrainingQueue,
    metrics: Metrics | None = None,
) -> FastAPI:
    """The service over a migrated database. The caller opened its parts, and closes them."""
    app = FastAPI(title="recourse", version="0.1.0", description=DESCRIPTION, docs_url=None, redoc_url=None)
    metrics = metrics or Metrics()
    app.state.resources = gather(settings, database, explainer, queue)
    app.state.metrics = metrics
    app.state.routes = [route for router in routers() for route in router.routes]
    pages.install_dashboard(app)
    for router in routers():
        app.include_router(router)
    problems.install_problems(app)
    install_openapi(app)
    install_docs(app)
    # The last one added is the first to see a request.
    app.add_middleware(ExplainShortcut)
    app.add_middleware(BodyLimit, body_bytes=settings.max_body_bytes, upload_bytes=settings.max_upload_bytes)
    app.add_middleware(RequestLog, metrics=metrics)
    return app


def routers() -> tuple[APIRouter, ...]:
    """Every router, in the order of the documentation."""
    return (
        explain.router,
        explain.records_router,
        datasets.router,
        train.router,
        train.jobs_router,
        models.router,
        ensembles.router,
        budgets.router,
        keys.router,
        operations.router,
        operations.metrics_router,
    )


DESCRIPTION = "Counterfactual explanations that hold across many models, within a query budget."


FILES = "/docs/files"


def install_docs(app: FastAPI) -> None:
    """Serve the page; like the document that it shows it needs no key, and tells nothing of any tenant."""
    app.mount(FILES, StaticFiles(directory=str(files("fastapi_offline") / "static")), name="docs files")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="recourse",
            swagger_js_url=f"{FILES}/swagger-ui-bundle.js",
            swagger_css_url=f"{FILES}/swagger-ui.css",
            swagger_favicon_url=f"{FILES}/favicon.png",
        )


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


def install_openapi(app: FastAPI) -> None:
    """Let the application describe itself so; the document is made once."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _write_openapi(app)
        return app.openapi_schema

    # FastAPI's own way to do this.
    app.openapi = document  # type: ignore[method-assign]


def _write_openapi(app: FastAPI) -> dict[str, Any]:
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


EVERY_SECONDS = 60.0
logger = structlog.get_logger("recourse.upkeep")


async def keep_up(resources: Resources, every: float = EVERY_SECONDS) -> None:
    """Until it is cancelled; what fails is logged, and tried again the next time. Any number of processes may do it."""
    while True:
        await to_thread.run_sync(tidy, resources)
        await sleep(every)


def tidy(resources: Resources) -> None:
    """Everything once."""
    chores: dict[str, Callable[[], object]] = {
        "expire reservations": resources.ledger.expire,
        "forget idempotency keys": lambda: _forget(resources),
        "forget ended sessions": lambda: _forget_sessions(resources),
        "ring for waiting jobs": lambda: reconcile(
            resources.database, resources.ledger, resources.queue, resources.settings.job_attempts
        ),
    }
    for name, chore in chores.items():
        try:
            chore()
        except Exception as error:
            logger.warning("upkeep failed", chore=name, reason=type(error).__name__, exc_info=error)


def _forget(resources: Resources) -> None:
    oldest = utc_now() - timedelta(hours=resources.settings.idempotency_hours)
    with resources.database.writing() as connection:
        idempotency.drop_older_uses(connection, oldest)


def _forget_sessions(resources: Resources) -> None:
    with resources.database.writing() as connection:
        queries.drop_past_sessions(connection, utc_now())
