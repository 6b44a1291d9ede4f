"""What POST /explain asks for, checked as far as the model is not needed for it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from app.explaining.protocol import ExplainOrder
from models.records import Value
from models.rules import Range
from models.schema import Direction


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """See `ExplainOrder` for the fields that they share; deadline_ms None: the operator's default."""

    model: str
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
    deadline_ms: int | None = None

    @property
    def work(self) -> int:
        """How many paths have to be solved."""
        return len(self.records) * self.candidates * self.k

    def order(self, tenant_id: int, version_id: UUID, deadline: float = math.inf) -> ExplainOrder:
        return ExplainOrder(
            tenant_id=tenant_id,
            version_id=version_id,
            records=self.records,
            target=self.target,
            immutable=self.immutable,
            ranges=self.ranges,
            directions=self.directions,
            k=self.k,
            min_agreement=self.min_agreement,
            max_queries=self.max_queries,
            price=self.price,
            candidates=self.candidates,
            seed=self.seed,
            trajectory=self.trajectory,
            deadline=deadline,
        )

    def document(self) -> dict[str, object]:
        """All that the answer to a record depends on, besides the model, the record and the target."""
        return {
            "constraints": {
                "immutable": list(self.immutable),
                "ranges": {name: list(wanted) for name, wanted in self.ranges.items()},
                "directions": {name: way.value for name, way in self.directions.items()},
            },
            "k": self.k,
            "robustness": {"min_agreement": self.min_agreement, "max_queries": self.max_queries},
            "price": self.price,
            "candidates": self.candidates,
            "seed": self.seed,
            "trajectory": self.trajectory,
        }
