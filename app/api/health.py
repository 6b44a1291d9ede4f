"""Health: the only routes without a key."""

from fastapi import APIRouter, Response

from app.api.dependencies import ResourcesDep
from app.schemas.health import LiveAnswer, PartAnswer, ReadyAnswer
from app.services.health import check_parts

router = APIRouter(tags=["operations"])
NOT_READY = 503


@router.get("/livez", operation_id="live")
async def live() -> LiveAnswer:
    """The process answers; nothing else is looked at."""
    return LiveAnswer(live=True)


@router.get("/readyz", operation_id="ready", responses={NOT_READY: {"model": ReadyAnswer}})
async def ready(response: Response, resources: ResourcesDep) -> ReadyAnswer:
    """Whether the database, the queue, a worker and the disk are there; 503 names the part that is not."""
    parts = await check_parts(resources)
    well = all(part.ready for part in parts)
    response.status_code = 200 if well else NOT_READY
    shown = [PartAnswer.model_validate(part, from_attributes=True) for part in parts]
    return ReadyAnswer(ready=well, parts=shown)


@router.get("/v2/health/live", operation_id="oip_live")
async def oip_live() -> LiveAnswer:
    """The same as /livez, under the name of the Open Inference Protocol."""
    return LiveAnswer(live=True)


@router.get("/v2/health/ready", operation_id="oip_ready", responses={NOT_READY: {"model": ReadyAnswer}})
async def oip_ready(response: Response, resources: ResourcesDep) -> ReadyAnswer:
    """The same as /readyz, under the name of the Open Inference Protocol."""
    return await ready(response, resources)
