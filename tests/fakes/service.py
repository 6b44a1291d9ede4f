"""Stand-ins for what other processes do: an explainer that knows one ensemble, and a bell that counts."""

from uuid import UUID

from app.explain.contract import (
    ExplainAnswer,
    ExplainerState,
    ExplainTask,
    RecordAnswer,
    VerifiedRecord,
    VerifyAnswer,
    VerifyTask,
)


class SilentExplainer:
    """Verifies anything with the same votes, and finds no way for anybody."""

    def __init__(self) -> None:
        self.verified: list[VerifyTask] = []
        self.ready = True

    def start(self) -> None:
        return None

    async def explain(self, task: ExplainTask) -> ExplainAnswer:
        body = b'{"status":"infeasible","counterfactuals":[],"diagnosis":null,"error":null,"queries":0}'
        return ExplainAnswer((RecordAnswer("infeasible", 0, body),) * len(task.request.records))

    async def verify(self, task: VerifyTask) -> VerifyAnswer:
        self.verified.append(task)
        record = VerifiedRecord(probabilities=((0.25, 0.75),))
        count = len(task.records)
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

    def wake(self, job_id: UUID) -> None:
        self.rung.append(job_id)

    def healthy(self) -> bool:
        return self.well

    def close(self) -> None:
        return None
