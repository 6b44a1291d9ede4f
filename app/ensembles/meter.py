"""An ensemble behind its meter: beyond this file it can only be asked metered.

An import contract in pyproject.toml keeps every other package from making a black box of its own.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Self

from app.concurrency import Deadline
from app.db.engine import Database
from app.ensembles.blackbox import BreakerPolicy, LocalBlackBox, RemoteBlackBox
from app.ensembles.bought import Allowance, AnswerCache, AnswerOwner, EndpointLimit
from app.ensembles.endpoint import Endpoint, EndpointPool
from app.ensembles.metered import MeteredEnsemble, QueryPolicy
from app.ledger.balance import Reservation
from app.ledger.ledger import Ledger
from models.data.schema import Schema
from models.ensemble.protocol import Ensemble

CACHE_PATIENCE = timedelta(seconds=5)


class EnsembleMeter:
    """One version of a tenant's ensemble; it lives as long as the process and opens one metered ensemble a request."""

    def __init__(
        self,
        box: LocalBlackBox | RemoteBlackBox,
        database: Database,
        ledger: Ledger,
        owner: AnswerOwner,
        limits: Sequence[EndpointLimit] = (),
    ) -> None:
        self.member_names = box.member_names
        self.classes = box.classes
        self._ledger = ledger
        self._owner = owner
        self._limits = limits
        self._cache = AnswerCache(database, owner, len(box.member_names), len(box.classes), CACHE_PATIENCE)
        self.__box = box

    @classmethod
    def local(cls, ensemble: Ensemble, database: Database, ledger: Ledger, owner: AnswerOwner) -> Self:
        """Around an ensemble in this process."""
        return cls(LocalBlackBox(ensemble), database, ledger, owner)

    @classmethod
    def remote(
        cls,
        schema: Schema,
        endpoints: tuple[Endpoint, ...],
        pool: EndpointPool,
        database: Database,
        ledger: Ledger,
        owner: AnswerOwner,
        breakers: BreakerPolicy | None = None,
        limits: Sequence[EndpointLimit] = (),
    ) -> Self:
        """Around Open Inference Protocol v2 endpoints, which may have limits of their own; each ensemble has its share
        of the pool's places."""
        holder = owner.tenant_id, owner.ensemble_id
        return cls(RemoteBlackBox(schema, endpoints, pool, holder, breakers), database, ledger, owner, limits)

    def open(
        self,
        maximum: int,
        policy: QueryPolicy | None = None,
        deadline: Deadline | None = None,
        reservation: Reservation | None = None,
    ) -> MeteredEnsemble:
        """The ensemble for one request of at most `maximum` queries; a job passes the reservation that it holds."""
        owner = self._owner.tenant_id, self._owner.ensemble_id
        allowance = Allowance(self._ledger, *owner, maximum, reservation, self._limits)
        return MeteredEnsemble(self.__box, allowance, self._cache, policy, deadline)
