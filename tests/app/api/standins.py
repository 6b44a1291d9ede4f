"""Stand-ins for what other processes do: an explainer that knows one ensemble, and a bell that counts."""

from uuid import UUID

from app.explain.contract import (
    ExplainAnswer,
    ExplainerState,
    ExplainOrder,
    RecordAnswer,
    VerifiedRecord,
    VerifyAnswer,
    VerifyOrder,
)


class SilentExplainer:
    """Verifies anything with the same votes, and finds no way for anybody."""

    def __init__(self) -> None:
        self.verified: list[VerifyOrder] = []
        self.ready = True

    async def explain(self, order: ExplainOrder) -> ExplainAnswer:
        body = b'{"status":"infeasible","counterfactuals":[],"diagnosis":null,"error":null,"queries":0}'
        return ExplainAnswer((RecordAnswer("infeasible", 0, body),) * len(order.records))

    async def verify(self, order: VerifyOrder) -> VerifyAnswer:
        self.verified.append(order)
        record = VerifiedRecord(probabilities=((0.25, 0.75),))
        count = len(order.records)
        return VerifyAnswer(("mlp",), ("no", "yes"), (record,) * count, charged=count, reused=0)

    async def state(self) -> ExplainerState:
        return ExplainerState(self.ready, None if self.ready else "it sleeps")

    async def close(self) -> None:
        return None


class Bell:
    """A queue that remembers who rang."""

    def __init__(self) -> None:
        self.rung: list[UUID] = []
        self.well = True

    def ring(self, job_id: UUID) -> None:
        self.rung.append(job_id)

    def healthy(self) -> bool:
        return self.well

    def close(self) -> None:
        return None
