"""The metered proxy: the only way to the lender's models, and the place where a member that fails is asked again.

For each record: is its answer bought already (app/ensembles/bought.py)? If not, see who can be asked, charge the query
in the ledger (`Allowance`), then ask. A member that fails in passing may be asked again, each further try charged too:
from what the first tries of this request cannot need any more, or where too few members have answered. So failing
members do not use up the request's queries: the answer comes from the members that are left. Too few answers are an
EnsembleError that names who is missing. Black boxes are in app/ensembles/blackbox.py.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from app.concurrency import Deadline
from app.ensembles.bought import Allowance, AnswerCache, Votes, record_keys
from app.errors import LedgerUnavailableError
from app.ledger.balance import Reservation
from models.arrays import Records
from models.errors import ConfigError, EnsembleError, QueryLimitError


@dataclass(frozen=True, slots=True)
class MissingVote:
    """A member that did not answer, and why; `passing` says that another try may help."""

    member: str
    reason: str
    passing: bool


@dataclass(frozen=True, slots=True)
class BoxAnswer:
    """probabilities (members asked, n, K), NaN where a member did not answer; each of those is named in `missing`."""

    probabilities: NDArray[np.float64]
    missing: tuple[MissingVote, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What can be asked now: `members`, in the order of the answer, by `ask`; to be charged first, and asked once.

    `missing` names those to whom nothing can be sent, and why: that costs nothing.
    """

    members: tuple[int, ...]
    missing: tuple[MissingVote, ...]
    ask: Callable[[], BoxAnswer]


class BlackBox(Protocol):
    """m models that can be asked one by one."""

    @property
    def member_names(self) -> tuple[str, ...]: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    def prepare(self, records: Records, members: tuple[int, ...], deadline: Deadline) -> Prepared:
        """Put records (n, F) to some of the members; one that fails is missing from the answer, it does not raise."""
        ...


@dataclass(frozen=True, slots=True)
class QueryPolicy:
    """How an ensemble is asked.

    required: members that must answer for each record, by default more than half of them. attempts: most tries for a
    member that fails in passing, each one charged. retry_seconds: the pause before a further try. chunk: records in one
    call.
    """

    required: int | None = None
    attempts: int = 2
    retry_seconds: float = 0.2
    chunk: int = 256

    def __post_init__(self) -> None:
        counts = (self.attempts, self.chunk, 1 if self.required is None else self.required)
        if min(counts) < 1 or self.retry_seconds < 0:
            raise ConfigError(f"{self} makes no sense: the counts are 1 or more, and retry_seconds is 0 or more")

    def required_of(self, members: int) -> int:
        """How many of the ensemble's `members` must answer."""
        required = members // 2 + 1 if self.required is None else self.required
        if required > members:
            raise ConfigError(f"{required} members are required, but the ensemble has only {members}")
        return required


@dataclass(frozen=True, slots=True)
class MeteredAnswer:
    """probabilities (m, n, K), NaN for a missing vote; each member that is missing somewhere is named with a reason."""

    probabilities: NDArray[np.float64]
    missing: tuple[MissingVote, ...]
    charged: int
    reused: int


SUM_TOLERANCE = 1e-3
Answers = NDArray[np.float64]
"""(m, n, K) probabilities, NaN for a member that did not answer."""


class MeteredEnsemble:
    """An `Ensemble` whose every query is in the ledger before it is made, and whose answers are bought once.

    Use it in a `with`: the end settles the reservation.
    """

    def __init__(
        self,
        box: BlackBox,
        allowance: Allowance,
        cache: AnswerCache,
        policy: QueryPolicy | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self.member_names = box.member_names
        self.classes = box.classes
        self._policy = policy or QueryPolicy()
        self._required = self._policy.required_of(len(box.member_names))
        self._allowance = allowance
        self._cache = cache
        self._deadline = deadline or Deadline.never()
        self._missing: dict[str, MissingVote] = {}
        self._asked: set[bytes] = set()
        """The records that were put to the ensemble in this request, or whose answers were known."""
        self._repeated = 0
        """Queries that went into further tries."""
        self._reused = 0
        self._charges = np.zeros(0, dtype=np.intp)

        self._prepare = _sealed(box, self._deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._allowance.settle()
        except LedgerUnavailableError:
            # The reservation will expire by itself, charging the same. The first error is the one to tell.
            if error is None:
                raise

    @property
    def reservation(self) -> Reservation | None:
        """The present one: it is another after the budget's period has turned."""
        return self._allowance.reservation

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """The present one, and those of the endpoints' limits beside it."""
        return self._allowance.reservations

    @property
    def charged(self) -> int:
        """Queries charged so far."""
        return self._allowance.dispatched

    @property
    def reused(self) -> int:
        """Records answered so far without a charge."""
        return self._reused

    @property
    def charges(self) -> NDArray[np.intp]:
        """What each record of the last call cost (n,), whether it was answered or not."""
        return self._charges

    @property
    def missing(self) -> tuple[MissingVote, ...]:
        """The members that were missing so far, each with its last reason."""
        return tuple(self._missing.values())

    def predict_proba(self, records: Records) -> Answers:
        """records (n, F) -> probabilities (m, n, K), NaN for a missing vote"""
        return self.ask(records).probabilities

    def ask(self, records: Records) -> MeteredAnswer:
        """records (n, F) -> the votes of each member; what was bought before is free.

        A vote that is missing is not asked for a second time in this request; the next request does.
        """
        keys = record_keys(records)
        self._charges = np.zeros(len(keys), dtype=np.intp)
        rows = dict(zip(keys, records, strict=True))
        votes = self._cache.find(list(rows))
        before_all, known = self._allowance.dispatched, self._asked.intersection(votes)
        self._asked.update(rows)
        missing: dict[str, MissingVote] = {}
        asked, costs = 0, dict.fromkeys(rows, 0)
        try:
            for members, chunk in self._purchases([key for key in rows if key not in known], votes):
                asked, before = asked + len(chunk), self._allowance.dispatched
                try:
                    missing |= self._buy(chunk, np.stack([rows[key] for key in chunk]), members, votes)
                except EnsembleError:
                    self._asked.difference_update(chunk)
                    raise
                finally:
                    costs |= dict.fromkeys(chunk, (self._allowance.dispatched - before) // len(chunk))
        finally:
            # A record that stands twice in a call is paid for once, with its first copy.
            self._charges = np.array([costs.pop(key, 0) for key in keys], dtype=np.intp)
        self._missing |= missing
        self._reused += len(keys) - asked
        nothing = np.empty((len(self.member_names), 0, len(self.classes)))
        answered = np.stack([votes[key] for key in keys], axis=1) if keys else nothing
        charged = self._allowance.dispatched - before_all
        return MeteredAnswer(answered, tuple(missing.values()), charged, reused=len(keys) - asked)

    def _purchases(self, keys: list[bytes], votes: dict[bytes, Votes]) -> list[tuple[tuple[int, ...], list[bytes]]]:
        """(members, records) of each call to make: records that lack the same members go together."""
        groups: dict[tuple[int, ...], list[bytes]] = {}
        for key in keys:
            lacking = np.isnan(votes[key]).any(axis=1) if key in votes else np.ones(len(self.member_names), dtype=bool)
            if lacking.any():
                groups.setdefault(tuple(np.flatnonzero(lacking).tolist()), []).append(key)
        size = self._policy.chunk
        return [
            (members, group[start : start + size])
            for members, group in groups.items()
            for start in range(0, len(group), size)
        ]

    def _buy(
        self, keys: list[bytes], records: Records, lacking: tuple[int, ...], votes: dict[bytes, Votes]
    ) -> dict[str, MissingVote]:
        """Ask the lacking members for records (n, F), add what they say to `votes` and to the cache; who is missing."""
        answers = np.full((len(self.member_names), len(keys), len(self.classes)), np.nan)
        for position, key in enumerate(keys):
            if key in votes:
                answers[:, position] = votes[key]
        missing = self._ask_until_answered(records, lacking, answers)
        bought = {key: answers[:, position] for position, key in enumerate(keys)}
        votes |= bought
        self._cache.keep(bought)
        heard = int((~np.isnan(answers).any(axis=2)).sum(axis=0).min())
        if heard < self._required:
            raise self._too_few(heard, missing)
        return missing

    def _ask_until_answered(
        self, records: Records, lacking: tuple[int, ...], answers: Answers
    ) -> dict[str, MissingVote]:
        """Fill in `answers` (m, n, K), each try charged before it is made; the members that are missing still."""
        missing = {m: MissingVote(self.member_names[m], "was not asked", True) for m in lacking}
        for attempt in range(self._policy.attempts):
            ready = self._prepare(records, tuple(m for m, vote in missing.items() if vote.passing))
            if attempt == 0:
                missing |= {self.member_names.index(vote.member): vote for vote in ready.missing}
            heard = len(self.member_names) - len(missing)
            if not ready.members or heard + len(ready.members) < self._required:
                break
            if not self._pay(len(records), attempt, needed=heard < self._required):
                break
            answer = ready.ask()
            fresh = _checked(answer.probabilities)
            told = {vote.member: vote for vote in answer.missing}
            for position, m in enumerate(ready.members):
                answers[m] = np.where(np.isnan(fresh[position]), answers[m], fresh[position])
                name = self.member_names[m]
                missing[m] = told.get(name) or MissingVote(name, "answered with what are not probabilities", False)
                if not np.isnan(answers[m]).any():
                    del missing[m]
            if not any(vote.passing for vote in missing.values()):
                break
        return {vote.member: vote for vote in missing.values()}

    def _pay(self, records: int, attempt: int, needed: bool) -> bool:
        """Charge one try. The first raises what is in its way; a further one is only left out, what came is kept.

        needed: too few members have answered, so that the request fails without this try.
        """
        if attempt == 0:
            self._deadline.check(f"{records} records")
            self._dispatch_first(records)
            return True
        if not needed and self._spare < records:
            return False
        time.sleep(min(self._policy.retry_seconds, self._deadline.remaining))
        if self._deadline.remaining <= 0.0:
            return False
        try:
            self._allowance.dispatch(records)
        except QueryLimitError:
            return False
        self._repeated += records
        return True

    @property
    def _spare(self) -> int:
        """Queries that the first tries of this request cannot need any more."""
        maximum = self._allowance.maximum
        return maximum - self._allowance.dispatched - max(0, maximum - len(self._asked))

    def _dispatch_first(self, records: int) -> None:
        try:
            self._allowance.dispatch(records)
        except QueryLimitError as error:
            if not self._repeated:
                raise
            failed = ", ".join(self._missing) or "the ensemble"
            raise EnsembleError(
                f"{failed} failed, and asking again took {self._repeated} of the request's {self._allowance.maximum} "
                f"queries, so that {records} more records could not be asked: repair it, or allow more queries"
            ) from error

    def _too_few(self, heard: int, missing: dict[str, MissingVote]) -> EnsembleError:
        why = "; ".join(f"{vote.member}: {vote.reason}" for vote in missing.values())
        members = len(self.member_names)
        advice = "try later" if any(vote.passing for vote in missing.values()) else "it will not pass by itself"
        return EnsembleError(
            f"only {heard} of {members} members answered, {self._required} are required ({why}): {advice}"
        )


def _sealed(box: BlackBox, deadline: Deadline) -> Callable[[Records, tuple[int, ...]], Prepared]:
    """The box's `prepare` in a closure: no attribute leads around the meter."""

    def prepare(records: Records, members: tuple[int, ...]) -> Prepared:
        return box.prepare(records, members, deadline)

    return prepare


def _checked(probabilities: Answers) -> Answers:
    """The same with NaN for every row that is not a distribution; the others sum to exactly 1 within rounding."""
    sums = probabilities.sum(axis=2, keepdims=True)
    sound = (np.abs(sums - 1.0) <= SUM_TOLERANCE) & (probabilities >= 0.0).all(axis=2, keepdims=True)
    return np.where(sound, probabilities / np.where(sound, sums, 1.0), np.nan)
