"""POST /train: a job is made, and answered before it begins."""

from fastapi import APIRouter, Response

from app.api.dependencies import ClientCaller, IdempotencyKey, KeyedRoute, ResourcesDep
from app.schemas.problem import WITH_BODY, problems
from app.schemas.train import JobAnswer, TrainBody
from app.services import train
from app.services.idempotency import REPLAYED, Answer

router = APIRouter(tags=["training"], route_class=KeyedRoute)


@router.post(
    "/train",
    status_code=202,
    operation_id="train",
    response_model=JobAnswer,
    responses=problems(*WITH_BODY, 404, 409),
)
def submit(body: TrainBody, caller: ClientCaller, resources: ResourcesDep, keyed: IdempotencyKey) -> Response:
    """Train a model: 202 and the job; watch it at GET /jobs/{id} or live at GET /jobs/{id}/events."""

    def work() -> Answer:
        limit = resources.settings.max_queued_jobs
        found = (resources.database, resources.queue, caller.tenant_id)
        row = train.submit(*found, body.model, body.request(), limit)
        return Answer(202, JobAnswer.model_validate(row).model_dump_json())

    answer = resources.once.run(caller.tenant_id, "/train", keyed, work)
    headers = {REPLAYED: "true"} if answer.replayed else None
    return Response(answer.body, answer.status, headers, media_type="application/json")
