"""POST /explain, and KServe's form of it."""

from fastapi import APIRouter, Request, Response

from app.api.dependencies import ClientCaller, IdempotencyKey, KeyedRoute, RequestId, ResourcesDep
from app.api.hangup import unless_gone
from app.schemas.explain import ExplainAnswerBody, ExplainBody, InstancesBody
from app.schemas.fields import NameInPath
from app.schemas.problem import WITH_BODY, problems
from app.services.explain import explain_once
from app.services.idempotency import REPLAYED, Answer

router = APIRouter(tags=["explain"], route_class=KeyedRoute)
FAILURES = problems(*WITH_BODY, 404, 409, 429, 502, 504)


@router.post("/explain", operation_id="explain", response_model=ExplainAnswerBody, responses=FAILURES)
async def explain(
    body: ExplainBody,
    caller: ClientCaller,
    resources: ResourcesDep,
    request_id: RequestId,
    key: IdempotencyKey,
    http: Request,
) -> Response:
    """What could each applicant change, so that the lender's models, all of them, would accept?

    One bad record never fails its neighbours: it gets its own `error`. Each answer is kept as a decision record.
    """
    work = explain_once(resources, caller.tenant_id, request_id, key, body.to_request())
    return _respond(await unless_gone(http, work))


@router.post(
    "/v1/models/{name}:explain", operation_id="explain_kserve", response_model=ExplainAnswerBody, responses=FAILURES
)
async def explain_kserve(
    name: NameInPath,
    body: InstancesBody,
    caller: ClientCaller,
    resources: ResourcesDep,
    request_id: RequestId,
    key: IdempotencyKey,
    http: Request,
) -> Response:
    """POST /explain as KServe's v1 protocol has it: `instances` instead of `records`, the model in the path."""
    work = explain_once(resources, caller.tenant_id, request_id, key, body.to_request(name))
    return _respond(await unless_gone(http, work))


def _respond(answer: Answer) -> Response:
    """The body is JSON already."""
    headers = {REPLAYED: "true"} if answer.replayed else None
    return Response(answer.body, answer.status, headers, media_type="application/json")
