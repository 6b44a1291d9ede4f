"""POST /explanations/{id}/verify: does a promised recourse hold under the active version's ensemble, as it is now?"""

import time
from dataclasses import dataclass
from uuid import UUID

from anyio import to_thread

from app.db.types import AnyRow
from app.errors import ConflictError
from app.explaining.protocol import VerifyOrder
from app.resources import Resources
from app.services.explain import deadline_seconds
from app.services.explanations import find_explanation
from models.records import Value

TOLERANCE = 1e-9
"""The same as the search's: 4 of 5 are 0.8."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What was promised, and what the ensemble says of it now; votes by member, None where it did not answer."""

    id: UUID
    holds: bool
    agreement: float
    lower_bound: float
    min_agreement: float
    votes: tuple[tuple[str, bool | None], ...]
    charged: int
    model: str
    promised_version: int
    asked_version: int


async def verify(
    resources: Resources, tenant_id: int, explanation_id: UUID, counterfactual: int, deadline_ms: int | None
) -> Verification:
    """One record is put to the ensemble, unless its answer was bought before."""
    deadline = time.monotonic() + deadline_seconds(resources.settings, deadline_ms)
    row = await to_thread.run_sync(find_explanation, resources.database, tenant_id, explanation_id)
    record = promised_record(row, counterfactual)
    active = await resources.active.look_up(tenant_id, row.model)
    order = VerifyOrder(tenant_id, active.version_id, [record], row.target, deadline)
    answer = await resources.explainer.verify(order)
    said = answer.records[0]
    if said.error is not None or said.votes is None or said.agreement is None or said.lower_bound is None:
        raise ConflictError(f"version {active.number} of '{row.model}' cannot read this recourse: {said.error}")
    wanted = float(row.order["robustness"]["min_agreement"])
    return Verification(
        id=row.id,
        holds=said.agreement >= wanted - TOLERANCE,
        agreement=said.agreement,
        lower_bound=said.lower_bound,
        min_agreement=wanted,
        votes=tuple(zip(answer.members, said.votes, strict=True)),
        charged=answer.charged,
        model=row.model,
        promised_version=row.version,
        asked_version=active.number,
    )


def promised_record(row: AnyRow, counterfactual: int) -> dict[str, Value]:
    """The record that was promised to be accepted: an answer, or the applicant's own if that was in the class."""
    promised = row.answer["counterfactuals"]
    if row.status == "already_target" and counterfactual == 0:
        own: dict[str, Value] = row.record
        return own
    if counterfactual >= len(promised):
        fact = f"explanation {row.id} is {row.status} and has {len(promised)} counterfactuals"
        raise ConflictError(f"{fact}: there is no number {counterfactual} to verify")
    record: dict[str, Value] = promised[counterfactual]["record"]
    return record
