"""What the service asks of an explainer, wherever it runs: in this process (resident.py) or in workers (remote.py)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID, uuid4

from models.records import Value
from models.rules import Range
from models.schema import Direction


@dataclass(frozen=True, slots=True)
class ExplainOrder:
    """One checked request for one version of a model.

    records      raw values by name, as the lender holds them; each is checked by itself
    price        the dial of models.search.SearchConfig; None is its default
    max_queries  black-box queries for each record; 0: the surrogate alone decides
    deadline     a moment of time.monotonic(); an order that has not begun by then is dropped
    order_id     an order with queries runs at most once under its id
    """

    tenant_id: int
    version_id: UUID
    records: Sequence[Mapping[str, Value]]
    target: str
    immutable: tuple[str, ...] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    directions: Mapping[str, Direction] = field(default_factory=dict)
    k: int = 1
    min_agreement: float = 1.0
    max_queries: int = 0
    price: float | None = None
    candidates: int = 30
    seed: int = 0
    trajectory: bool = False
    deadline: float = math.inf
    order_id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True)
class RecordAnswer:
    """The answer to one record; `body` is its JSON object: status, counterfactuals, diagnosis, error, queries.

    It is written once, by the engine, and goes as it is into the reply and into the decision record. charged: how many
    of the queries were new; it is not in the body, which is the same each time.
    """

    status: str
    queries: int
    body: bytes
    charged: int = 0


@dataclass(frozen=True, slots=True)
class ExplainAnswer:
    """One answer a record, in the order of the records."""

    records: tuple[RecordAnswer, ...]


@dataclass(frozen=True, slots=True)
class VerifyOrder:
    """Records to put to the ensemble of a version as it is now; with a target, votes for it are counted."""

    tenant_id: int
    version_id: UUID
    records: Sequence[Mapping[str, Value]]
    target: str | None = None
    deadline: float = math.inf
    order_id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True)
class VerifiedRecord:
    """What the ensemble says of one record: probabilities (m, K), one row a member, None for one that is missing.

    votes, agreement and lower_bound are for the order's target, and None without one; a record that cannot be read
    has only an error.
    """

    probabilities: tuple[tuple[float, ...] | None, ...] = ()
    votes: tuple[bool | None, ...] | None = None
    agreement: float | None = None
    lower_bound: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class VerifyAnswer:
    """The members asked, the classes, one entry a record; charged: new queries; reused: answers bought before."""

    members: tuple[str, ...]
    classes: tuple[str, ...]
    records: tuple[VerifiedRecord, ...]
    charged: int
    reused: int


@dataclass(frozen=True, slots=True)
class ExplainerState:
    """For /readyz and /metrics; ready says whether an order could be run now, reason why not."""

    ready: bool
    reason: str | None = None
    versions: int = 0
    queued_records: int = 0
    queue_limit: int = 0
    workers: int = 1


class Explainer(Protocol):
    """Runs orders. Errors are RecourseErrors: an order that cannot be run as a whole raises, a bad record does not."""

    async def explain(self, order: ExplainOrder) -> ExplainAnswer: ...

    async def verify(self, order: VerifyOrder) -> VerifyAnswer: ...

    async def state(self) -> ExplainerState: ...

    async def close(self) -> None:
        """Finish what is running, refuse what is not."""
        ...
