"""The query counter: the only way in which the method reaches an ensemble."""

from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ..arrays import Records
from ..errors import ConfigError, EnsembleError, QueryLimitError
from .protocol import Ensemble

Ask = Callable[[Records], NDArray[np.float64]]


class QueryMeter:
    """An ensemble behind a hard limit; implements Ensemble.

    A query is one record scored by the ensemble. The same record (equal values, NaN equal to NaN) is paid for once,
    within a call and between calls. A call that would pass the limit is refused before a single record of it is asked.
    A call that fails after it was let through counts: the black box may have answered.

    >>> class Scorecard:
    ...     member_names, classes = ("card",), ("no", "yes")
    ...     def predict_proba(self, records):
    ...         return np.array([[[0.3, 0.7]] * len(records)])
    >>> meter = QueryMeter(Scorecard(), limit=5)
    >>> meter.predict_proba(np.array([[1.0], [2.0], [1.0]])).shape, meter.spent
    ((1, 3, 2), 2)
    """

    def __init__(self, ensemble: Ensemble, limit: int) -> None:
        if limit < 0:
            raise ConfigError(f"The query limit {limit} is negative; give 0 or more.")
        self.member_names = ensemble.member_names
        self.classes = ensemble.classes
        self._limit = limit
        self._spent = 0
        self._lock = Lock()
        self._rows: dict[bytes, int] = {}
        self._records: list[NDArray[np.float64]] = []
        self._answers: list[NDArray[np.float64]] = []
        self._charges = np.zeros(0, dtype=np.intp)
        self._ask = _sealed(ensemble)

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def spent(self) -> int:
        """Records asked so far, those of failed calls included."""
        return self._spent

    @property
    def remaining(self) -> int:
        return self._limit - self._spent

    @property
    def charges(self) -> NDArray[np.intp]:
        """What each record of the last call cost (n,): 1 where it was new."""
        return self._charges

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> probabilities (m, n, K); QueryLimitError where the new ones among them pass the limit"""
        canonical = _canonical(records)
        keys = [row.tobytes() for row in canonical]
        with self._lock:
            fresh = list({key: row for row, key in enumerate(keys) if key not in self._rows}.items())
            if fresh:
                self._buy([key for key, _ in fresh], canonical[[row for _, row in fresh]])
            self._charges = np.zeros(len(keys), dtype=np.intp)
            self._charges[[row for _, row in fresh]] = 1
            shape = (len(self.member_names), len(keys), len(self.classes))
            if not keys:
                return np.empty(shape)
            return np.stack([self._answers[self._rows[key]] for key in keys], axis=1)

    def answers(self) -> tuple[Records, NDArray[np.float64]]:
        """Everything bought so far, in the order of purchase: records (q, F), probabilities (m, q, K)."""
        with self._lock:
            if not self._records:
                return np.empty((0, 0)), np.empty((len(self.member_names), 0, len(self.classes)))
            return np.stack(self._records), np.stack(self._answers, axis=1)

    def restore(self, records: Records, answers: NDArray[np.float64], spent: int) -> None:
        """Take up where another meter was interrupted: its `answers()`, which stay free, and what it had spent."""
        with self._lock:
            for position, record in enumerate(_canonical(records)):
                self._rows[record.tobytes()] = len(self._records)
                self._records.append(record.copy())
                self._answers.append(answers[:, position].copy())
            self._spent = spent

    def _buy(self, keys: list[bytes], records: Records) -> None:
        """Ask for records (q, F) that were never asked before, and keep the answers."""
        if self._spent + len(keys) > self._limit:
            raise QueryLimitError(
                f"{len(keys)} more queries were asked for, but {self._spent} of {self._limit} are spent and "
                f"{self.remaining} remain; raise the limit or ask for fewer."
            )
        self._spent += len(keys)
        answer = np.asarray(self._ask(records), dtype=np.float64)
        expected = (len(self.member_names), len(keys), len(self.classes))
        if answer.shape != expected:
            raise EnsembleError(f"The ensemble answered with shape {answer.shape}; its protocol says {expected}.")
        for position, key in enumerate(keys):
            self._rows[key] = len(self._records)
            self._records.append(records[position].copy())
            self._answers.append(answer[:, position].copy())


def _canonical(records: Records) -> Records:
    """records (n, F) with one bit pattern for equal values: every NaN the same NaN, and -0.0 as 0.0."""
    matrix = np.asarray(records, dtype=np.float64)
    if matrix.ndim != 2:
        raise EnsembleError(f"An ensemble takes a record matrix (n, F), not an array of shape {matrix.shape}.")
    return np.where(np.isnan(matrix), np.nan, matrix + 0.0)


def _sealed(ensemble: Ensemble) -> Ask:
    """The ensemble's answers without the ensemble: a closure, so that no attribute leads around the meter."""

    def ask(records: Records) -> NDArray[np.float64]:
        return ensemble.predict_proba(records)

    return ask
