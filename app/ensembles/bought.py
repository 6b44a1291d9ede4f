"""Answers already bought, kept in the database so that no record is charged twice; and what a request may still buy."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from app.db.engine import Database, insert_for, retry_database
from app.db.ledger_tables import BoughtAnswer
from app.db.tables import utc_now
from app.ledger.balance import Reservation, Settlement
from app.ledger.ledger import Ledger
from models.arrays import Records
from models.errors import EnsembleError, QueryLimitError

KEYS_PER_QUERY = 500
"""Well under the number of bound values that either database takes in one statement."""


@dataclass(frozen=True, slots=True)
class AnswerOwner:
    """Whose answers: they are shared neither between tenants nor between versions."""

    tenant_id: int
    ensemble_id: int
    version: str


def find_bought(connection: Connection, owner: AnswerOwner, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """record key -> probabilities, for the records among `keys` that were bought before."""
    found: dict[bytes, bytes] = {}
    for start in range(0, len(keys), KEYS_PER_QUERY):
        statement = select(BoughtAnswer.record_key, BoughtAnswer.probabilities).where(
            BoughtAnswer.tenant_id == owner.tenant_id,
            BoughtAnswer.ensemble_id == owner.ensemble_id,
            BoughtAnswer.version == owner.version,
            BoughtAnswer.record_key.in_(keys[start : start + KEYS_PER_QUERY]),
        )
        found.update((row.record_key, row.probabilities) for row in connection.execute(statement))
    return found


def keep_bought(
    connection: Connection, owner: AnswerOwner, answers: Mapping[bytes, tuple[bytes, int]], now: datetime
) -> None:
    """Store record key -> (probabilities, members that answered); a fuller answer is never replaced by a poorer one."""
    statement = insert_for(connection, BoughtAnswer)
    statement = statement.on_conflict_do_update(
        index_elements=["tenant_id", "ensemble_id", "version", "record_key"],
        set_={
            "probabilities": statement.excluded.probabilities,
            "members_answered": statement.excluded.members_answered,
            "bought_at": statement.excluded.bought_at,
        },
        where=statement.excluded.members_answered > BoughtAnswer.members_answered,
    )
    rows = [
        {
            "tenant_id": owner.tenant_id,
            "ensemble_id": owner.ensemble_id,
            "version": owner.version,
            "record_key": key,
            "probabilities": probabilities,
            "members_answered": answered,
            "bought_at": now,
        }
        # In one order for all writers, so that two of them cannot wait for each other.
        for key, (probabilities, answered) in sorted(answers.items())
    ]
    if rows:
        connection.execute(statement, rows)


Votes = NDArray[np.float64]
"""(m, K) probabilities of one record, NaN for a member that did not answer."""

WIRE_TYPE = np.dtype("<f8")


def record_keys(records: Records) -> list[bytes]:
    """A hash for each record (n, F): equal values have equal hashes, every NaN is one NaN, -0.0 is 0.0."""
    matrix = np.asarray(records, dtype=WIRE_TYPE)
    if matrix.ndim != 2:
        raise EnsembleError(f"an ensemble takes a record matrix (n, F), not an array of shape {matrix.shape}")
    canonical = np.where(np.isnan(matrix), np.nan, matrix + 0.0)
    return [hashlib.sha256(row.tobytes()).digest() for row in canonical]


class AnswerCache:
    """The bought answers of one ensemble version."""

    def __init__(self, database: Database, owner: AnswerOwner, members: int, classes: int, patience: timedelta) -> None:
        self._database = database
        self._owner = owner
        self._shape = (members, classes)
        self._patience = patience

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Votes]:
        """The votes of the records that were asked before."""

        read = partial(self._database.read, find_bought, self._owner, keys)
        return {key: self._parse(stored) for key, stored in retry_database(read, self._patience).items()}

    def keep(self, bought: Mapping[bytes, Votes]) -> None:
        """Store votes; those of a record with fewer members than are stored already change nothing."""
        rows = {
            key: (votes.astype(WIRE_TYPE).tobytes(), int((~np.isnan(votes).any(axis=1)).sum()))
            for key, votes in bought.items()
        }

        def write() -> None:
            with self._database.writing() as connection:
                keep_bought(connection, self._owner, rows, utc_now())

        retry_database(write, self._patience)

    def _parse(self, stored: bytes) -> Votes:
        votes = np.frombuffer(stored, dtype=WIRE_TYPE)
        if votes.size != self._shape[0] * self._shape[1]:
            raise EnsembleError(
                f"the answers stored for version {self._owner.version!r} are not of {self._shape[0]} members and "
                f"{self._shape[1]} classes: give a changed ensemble a new version"
            )
        return votes.reshape(self._shape).astype(np.float64)


@dataclass(frozen=True, slots=True)
class EndpointLimit:
    """A limit on an endpoint itself (app/ensembles/bindings.py): the name of its binding, and whose budget counts."""

    name: str
    tenant_id: int
    ensemble_id: int

    @contextmanager
    def told(self) -> Iterator[None]:
        """What others have asked there is not told to a tenant."""
        try:
            yield
        except QueryLimitError as error:
            fact = f"the operator's limit on the endpoint '{self.name}' does not leave so many queries"
            raise QueryLimitError(f"{fact}: ask for fewer, or ask the operator") from error


class Allowance:
    """Up to `maximum` queries, reserved all at once when the first is needed: what the cache answers needs none.

    A job that goes on after a crash passes the reservation that it took over, and as `maximum` what is left of it.
    limits: of the endpoints that are going to be asked; each query is reserved, dispatched and settled there, too.
    """

    def __init__(
        self,
        ledger: Ledger,
        tenant_id: int,
        ensemble_id: int,
        maximum: int,
        reservation: Reservation | None = None,
        limits: Sequence[EndpointLimit] = (),
    ) -> None:
        self._ledger = ledger
        self._tenant_id = tenant_id
        self._ensemble_id = ensemble_id
        self._maximum = maximum
        self._reservation = reservation
        self._limits = tuple(limits)
        self._beside: list[Reservation] = []
        """Of the limits, in their order."""
        self._dispatched = 0

    @property
    def reservation(self) -> Reservation | None:
        return self._reservation

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """All that are to be kept alive."""
        return (*self._beside, *([] if self._reservation is None else [self._reservation]))

    @property
    def maximum(self) -> int:
        return self._maximum

    @property
    def dispatched(self) -> int:
        """Queries charged through this allowance."""
        return self._dispatched

    def dispatch(self, count: int) -> None:
        """Charge `count` queries, before they are made; an error means that none of them may be made."""
        if self._reservation is None:
            if self._maximum < 1:
                raise QueryLimitError(f"{count} queries were asked for, but none are left to this request: stop")
            self._reservation = self._ledger.reserve(self._tenant_id, self._ensemble_id, self._maximum)
        for limit in self._limits[len(self._beside) :]:
            budget = limit.tenant_id, limit.ensemble_id
            with limit.told():
                self._beside.append(self._ledger.accompany(self._reservation, budget, self._maximum))
        for place, limit in enumerate(self._limits):
            with limit.told():
                self._beside[place] = self._ledger.dispatch(self._beside[place], count)
        self._reservation = self._ledger.dispatch(self._reservation, count)
        self._dispatched += count

    def settle(self) -> Settlement | None:
        """Give back what was not used; None if nothing was ever reserved."""
        for one in self._beside:
            self._ledger.settle(one)
        return None if self._reservation is None else self._ledger.settle(self._reservation)
