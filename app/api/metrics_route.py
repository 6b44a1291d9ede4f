"""/metrics, for Prometheus."""

from anyio import to_thread
from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from app.api.dependencies import Caller, KeyedRoute, MetricsDep, ResourcesDep
from app.schemas.problem import problems
from app.services.scrape import scrape

router = APIRouter(tags=["operations"], route_class=KeyedRoute)


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        **problems(),
        200: {"content": {"text/plain": {"schema": {"type": "string"}, "example": 'recourse_jobs{state="done"} 3'}}},
    },
)
async def metrics(caller: Caller, resources: ResourcesDep, metrics: MetricsDep) -> Response:
    """Requests of this process; budgets and jobs of the key's tenant. Any key will do, a viewer's is best."""
    state = await resources.explainer.state()
    known = await to_thread.run_sync(scrape, resources, caller.tenant_id, state)
    return Response(generate_latest(metrics.registry) + known, media_type=CONTENT_TYPE_LATEST)
