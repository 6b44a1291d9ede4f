"""The HTTP application: its parts are handed in, its routers are mounted here.

Beside them: /docs, a page that lets a person try the calls, with its files from here and not from elsewhere; the
OpenAPI document, which is FastAPI's with the one form that every error has; and the maintenance of every minute.
"""

import hashlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any

import structlog
from anyio import create_task_group, sleep, to_thread
from fastapi import APIRouter, FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, PlainTextResponse
from pydantic.json_schema import models_json_schema
from sqlalchemy import Connection
from starlette.staticfiles import StaticFiles

from app import idempotency
from app.api import budgets, datasets, ensembles, explain, keys, models, operations, problems, train
from app.api.middleware import BodyLimit, RequestLog
from app.api.problems import FieldError, Problem
from app.auth import queries
from app.dashboard import pages
from app.dashboard.rendering import HEADERS, POLICY
from app.db.engine import Database
from app.db.tables import utc_now
from app.explain.contract import Explainer
from app.metrics import Metrics
from app.resources import Resources, gather
from app.settings import Settings
from app.train.queue import TrainingQueue
from app.train.service import clean_up_ended, reconcile


def create_app(
    settings: Settings,
    database: Database,
    explainer: Explainer,
    queue: TrainingQueue,
    metrics: Metrics | None = None,
) -> FastAPI:
    """The service over a migrated database.

    Its lifespan starts the explainer, does the maintenance, and closes the parts at the end. A server without a
    lifespan, as in tests, leaves that to the caller.
    """
    app = FastAPI(
        title="recourse", version=VERSION, description=DESCRIPTION, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    resources = app.state.resources = gather(settings, database, explainer, queue, metrics)
    app.state.routes = [route for router in routers() for route in router.routes]
    explaining, *others = routers()
    # The call that must be fast comes first; a page that shares its path with a call comes before that call.
    app.include_router(explaining)
    pages.install_dashboard(app)
    for router in others:
        app.include_router(router)
    problems.install_problems(app)
    install_openapi(app)
    install_docs(app)
    # The last one added is the first to see a request.
    app.add_middleware(BodyLimit, body_bytes=settings.max_body_bytes, upload_bytes=settings.max_upload_bytes)
    app.add_middleware(RequestLog, metrics=resources.metrics)
    return app


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The explainer gets ready; maintenance for as long as the service runs; then its parts are closed."""
    resources = app.state.resources
    resources.explainer.start()
    try:
        async with create_task_group() as tasks:
            tasks.start_soon(maintenance, resources)
            yield
            tasks.cancel_scope.cancel()
    finally:
        await resources.close()


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
    )


VERSION = "0.1.0"
DESCRIPTION = "Counterfactual explanations that hold across many models, within a query budget."


FILES = "/docs/files"
FRONT = f"""This is recourse {VERSION}, a service for lenders:
what could a refused applicant change, so that every one of the lender's models accepts?

/docs          every call, to read and to try
/openapi.json  the same for programs
/readyz        whether it is ready
/              in a browser: the pages
"""


def install_docs(app: FastAPI) -> None:
    """Serve the page; like the document that it shows it needs no key, and tells nothing of any tenant."""
    app.mount(FILES, StaticFiles(directory=str(files("fastapi_offline") / "static")), name="docs files")

    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="recourse",
        swagger_js_url=f"{FILES}/swagger-ui-bundle.js",
        swagger_css_url=f"{FILES}/swagger-ui.css",
        swagger_favicon_url=f"{FILES}/favicon.png",
    ).body
    # The page's one script within it may run, by its hash; the package's styles set attributes.
    script = bytes(page).partition(b"<script>")[2].partition(b"</script>")[0]
    digest = b64encode(hashlib.sha256(script).digest()).decode()
    policy = POLICY.replace("script-src 'self'", f"script-src 'self' 'sha256-{digest}'")
    headers = HEADERS | {
        "Content-Security-Policy": policy.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
    }

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page, headers=headers)

    # A browser, which asks for HTML, gets the dashboard's first page instead: its route comes before.
    @app.get("/", include_in_schema=False)
    async def front() -> PlainTextResponse:
        return PlainTextResponse(FRONT)


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


SUMMARIES = {
    "explain": "Explain records",
    "explain_kserve": "Explain records in the form of KServe",
    "follow_job": "Follow a job's events live",
    "live": "The process answers",
    "metrics": "Metrics for Prometheus",
    "oip_live": "The process answers (Open Inference Protocol)",
    "oip_ready": "Ready to explain, or to train (Open Inference Protocol)",
    "predict": "Ask the lender's models about records",
    "ready": "Ready to explain, or to train",
    "show_ledger": "Show a budget's ledger, as JSON or CSV",
    "show_usage": "Show a budget's usage over time",
    "train": "Train a model",
}
"""What /docs calls an operation whose id does not say it."""


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
    for operation in (one for item in document["paths"].values() for one in item.values()):
        name = operation["operationId"]
        operation["summary"] = SUMMARIES.get(name) or name.replace("_", " ").capitalize()
    schemas = document["components"]["schemas"]
    schemas.update(definitions["$defs"])
    # `errors` is there only where fields are wrong.
    schemas["Problem"]["required"] = [name for name in schemas["Problem"]["required"] if name != "errors"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return document


EVERY_SECONDS = 60.0
logger = structlog.get_logger("recourse.maintenance")


async def maintenance(resources: Resources, every: float = EVERY_SECONDS) -> None:
    """`maintain` once a minute, until it is cancelled. Any number of processes may do it."""
    while True:
        await to_thread.run_sync(maintain, resources)
        await sleep(every)


def maintain(resources: Resources) -> None:
    """Settle and forget what is over, wake trainers for jobs that wait; what fails is logged, and tried again later."""
    database, settings = resources.database, resources.settings
    oldest_use = utc_now() - timedelta(hours=settings.idempotency_hours)
    chores: dict[str, Callable[[], object]] = {
        "expire reservations": resources.ledger.expire,
        "forget idempotency keys": lambda: _write(database, idempotency.drop_older_uses, oldest_use),
        "note when keys were used": resources.keys.write_uses,
        "forget ended sessions": lambda: _write(database, queries.drop_past_sessions, utc_now()),
        "clean up after trainings": lambda: clean_up_ended(database, resources.ledger, resources.artifacts),
        "wake trainers": lambda: reconcile(database, resources.ledger, resources.queue, settings.job_attempts),
    }
    for name, chore in chores.items():
        try:
            chore()
        # Whatever is wrong with one chore, the others do not wait for it.
        except Exception as error:
            logger.warning("maintenance failed", chore=name, reason=type(error).__name__, exc_info=error)


def _write(database: Database, statement: Callable[[Connection, datetime], object], moment: datetime) -> None:
    with database.writing() as connection:
        statement(connection, moment)
