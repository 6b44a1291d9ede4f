"""Queries on bought answers: what is paid for is never paid for again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from app.db.tables import BoughtAnswer

KEYS_PER_QUERY = 500
"""Well under the number of bound values that either database takes in one statement."""


@dataclass(frozen=True, slots=True)
class AnswerOwner:
    """Whose answers: they are shared neither between tenants nor between versions."""

    tenant_id: int
    ensemble_id: int
    version: str


def find(connection: Connection, owner: AnswerOwner, keys: Sequence[bytes]) -> dict[bytes, bytes]:
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


def keep(connection: Connection, owner: AnswerOwner, answers: Mapping[bytes, tuple[bytes, int]], now: datetime) -> None:
    """Store record key -> (probabilities, members that answered); a fuller answer is never replaced by a poorer one."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = insert(BoughtAnswer)
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


def forget_other_versions(connection: Connection, owner: AnswerOwner) -> int:
    """Delete the answers of versions that are no longer served; how many."""
    statement = delete(BoughtAnswer).where(
        BoughtAnswer.tenant_id == owner.tenant_id,
        BoughtAnswer.ensemble_id == owner.ensemble_id,
        BoughtAnswer.version != owner.version,
    )
    return connection.execute(statement).rowcount
