"""/ensembles: the lender's models, and metered predictions of theirs."""

from fastapi import APIRouter

from app.api.dependencies import AdminCaller, Caller, ClientCaller, DatabaseDep, KeyedRoute, MetricsDep, ResourcesDep
from app.schemas.ensembles import EnsembleAnswer, EnsembleBody, PredictAnswer, PredictBody, PredictionAnswer
from app.schemas.fields import NameInPath
from app.schemas.paging import Page, PageQuery
from app.schemas.problem import WITH_BODY, problems
from app.services import ensembles
from app.services.ensembles import Prediction, Registration
from models.schema import Schema

router = APIRouter(prefix="/ensembles", tags=["ensembles"], route_class=KeyedRoute)


@router.post("", status_code=201, operation_id="register_ensemble", responses=problems(*WITH_BODY, 409))
def register(body: EnsembleBody, caller: AdminCaller, resources: ResourcesDep) -> EnsembleAnswer:
    """Register models behind Open Inference Protocol v2 endpoints, with their query budget."""
    wanted = Registration(
        body.name,
        body.version,
        Schema.from_json(body.described),
        tuple(endpoint.endpoint() for endpoint in body.endpoints),
        body.budget.limit,
        body.budget.period,
        body.budget.restart,
    )
    return EnsembleAnswer.model_validate(ensembles.register(resources, caller.tenant_id, wanted))


@router.get("", operation_id="list_ensembles", responses=problems())
def page(order: PageQuery, caller: Caller, database: DatabaseDep) -> Page[EnsembleAnswer]:
    """The ensembles, oldest first: registered ones, and those that were trained here."""
    found = ensembles.list_ensembles(database, caller.tenant_id, order)
    return Page(items=[EnsembleAnswer.model_validate(row) for row in found.rows], next=found.next)


@router.post("/{name}/predict", operation_id="predict", responses=problems(*WITH_BODY, 404, 409, 429, 502, 504))
async def predict(
    name: NameInPath, body: PredictBody, caller: ClientCaller, resources: ResourcesDep, metrics: MetricsDep
) -> PredictAnswer:
    """Put records to the ensemble. Each is one query, unless its answer was bought before."""
    found = await ensembles.predict(resources, caller.tenant_id, name, body.records, body.deadline_ms)
    metrics.count_queries(found.answer.charged, found.answer.reused)
    return _shown(found)


def _shown(found: Prediction) -> PredictAnswer:
    answer = found.answer
    predictions = [
        PredictionAnswer(
            probabilities=dict(zip(answer.members, map(_as_list, record.probabilities), strict=False)),
            error=record.error,
        )
        for record in answer.records
    ]
    return PredictAnswer(
        ensemble=found.ensemble.name,
        version=found.ensemble.version,
        classes=list(answer.classes),
        predictions=predictions,
        charged=answer.charged,
        reused=answer.reused,
    )


def _as_list(votes: tuple[float, ...] | None) -> list[float] | None:
    return None if votes is None else list(votes)
