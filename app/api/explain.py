"""POST /explain, and KServe's form of it."""

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from app.api.dependencies import ClientCaller, IdempotencyKey, KeyedRoute, ResourcesDep
from app.api.hangup import unless_gone
from app.explaining.request import ExplainRequest
from app.problems import request_id_of
from app.resources import Resources
from app.schemas.explain import ExplainAnswerBody, ExplainBody, InstancesBody
from app.schemas.fields import NameInPath
from app.schemas.problem import WITH_BODY, problems
from app.services.explain import explain_once
from app.services.idempotency import REPLAYED, KeyedBody

router = APIRouter(tags=["explain"], route_class=KeyedRoute)
FAILURES = problems(*WITH_BODY, 404, 409, 429, 502, 504)


@router.post("/explain", operation_id="explain", response_model=ExplainAnswerBody, responses=FAILURES)
async def explain(
    body: ExplainBody,
    caller: ClientCaller,
    resources: ResourcesDep,
    key: IdempotencyKey,
    http: Request,
) -> Response:
    """What could each applicant change, so that the lender's models, all of them, would accept?

    One bad record never fails its neighbours: it gets its own `error`. Each answer is kept as a decision record.
    """
    return await answer(http, resources, caller.tenant_id, key, body.to_request())


@router.post(
    "/v1/models/{name}:explain", operation_id="explain_kserve", response_model=ExplainAnswerBody, responses=FAILURES
)
async def explain_kserve(
    name: NameInPath,
    body: InstancesBody,
    caller: ClientCaller,
    resources: ResourcesDep,
    key: IdempotencyKey,
    http: Request,
) -> Response:
    """POST /explain as KServe's v1 protocol has it: `instances` instead of `records`, the model in the path."""
    return await answer(http, resources, caller.tenant_id, key, body.to_request(name))


ROUTE = next(route for route in router.routes if isinstance(route, APIRoute) and route.path == "/explain")


async def answer(
    http: Request, resources: Resources, tenant_id: int, key: KeyedBody | None, asked: ExplainRequest
) -> Response:
    """The answer, unless the caller hangs up; its body is JSON already."""
    found = await unless_gone(http, explain_once(resources, tenant_id, request_id_of(http), key, asked))
    headers = {REPLAYED: "true"} if found.replayed else None
    return Response(found.body, found.status, headers, media_type="application/json")
