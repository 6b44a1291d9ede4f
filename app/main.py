"""The HTTP application: its parts are handed in, its routers are mounted here."""

from fastapi import APIRouter, FastAPI

from app import problems
from app.api import (
    budgets,
    datasets,
    docs,
    ensembles,
    explain,
    explanations,
    health,
    jobs,
    keys,
    metrics_route,
    models,
    openapi,
    train,
)
from app.api.body_limit import BodyLimit
from app.api.request_log import RequestLog
from app.api.shortcut import ExplainShortcut
from app.dashboard import mount as dashboard
from app.db.engine import Database
from app.explaining.protocol import Explainer
from app.metrics import Metrics
from app.resources import gather
from app.settings import Settings
from app.training.protocol import TrainingQueue


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
    dashboard.install(app)
    for router in routers():
        app.include_router(router)
    problems.install(app)
    openapi.install(app)
    docs.install(app)
    # The last one added is the first to see a request.
    app.add_middleware(ExplainShortcut)
    app.add_middleware(BodyLimit, body_bytes=settings.max_body_bytes, upload_bytes=settings.max_upload_bytes)
    app.add_middleware(RequestLog, metrics=metrics)
    return app


def routers() -> tuple[APIRouter, ...]:
    """Every router, in the order of the documentation."""
    return (
        explain.router,
        explanations.router,
        datasets.router,
        train.router,
        jobs.router,
        models.router,
        ensembles.router,
        budgets.router,
        keys.router,
        health.router,
        metrics_route.router,
    )


DESCRIPTION = "Counterfactual explanations that hold across many models, within a query budget."
