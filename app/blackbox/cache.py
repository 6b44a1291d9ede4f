"""Answers already bought, kept in the database: the same record and ensemble version is never paid for twice."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from app.db import answers
from app.db.answers import AnswerOwner
from app.db.engine import Database
from app.ledger.ledger import utc_now
from app.ledger.patience import with_patience
from models.errors import EnsembleError
from models.matrix import Records

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

        def read() -> dict[bytes, bytes]:
            with self._database.reading() as connection:
                return answers.find(connection, self._owner, keys)

        return {key: self._parse(stored) for key, stored in with_patience(read, self._patience).items()}

    def keep(self, bought: Mapping[bytes, Votes]) -> None:
        """Store votes; those of a record with fewer members than are stored already change nothing."""
        rows = {
            key: (votes.astype(WIRE_TYPE).tobytes(), int((~np.isnan(votes).any(axis=1)).sum()))
            for key, votes in bought.items()
        }

        def write() -> None:
            with self._database.writing() as connection:
                answers.keep(connection, self._owner, rows, utc_now())

        with_patience(write, self._patience)

    def _parse(self, stored: bytes) -> Votes:
        votes = np.frombuffer(stored, dtype=WIRE_TYPE)
        if votes.size != self._shape[0] * self._shape[1]:
            raise EnsembleError(
                f"the answers stored for version {self._owner.version!r} are not of {self._shape[0]} members and "
                f"{self._shape[1]} classes: give a changed ensemble a new version"
            )
        return votes.reshape(self._shape).astype(np.float64)
