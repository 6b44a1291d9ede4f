"""What a search answers: a status, counterfactuals with their votes, and a diagnosis where there is none."""

from dataclasses import dataclass
from enum import StrEnum

from ..data.records import Value
from ..space.actions import Action


class Status(StrEnum):
    """How much an answer can be relied on."""

    ROBUST = "robust"
    """The agreement that was asked for was verified with the black boxes."""
    VALID = "valid"
    """The surrogate expects most models to agree; not verified, or verified below the agreement that was asked for."""
    ALREADY_TARGET = "already_target"
    """The record is already in the target class."""
    INFEASIBLE = "infeasible"
    """No such record was found; the diagnosis says why."""
    ERROR = "error"
    """The record or its constraints make no sense; `error` says what to correct."""


@dataclass(frozen=True, slots=True)
class Change:
    """One feature that the applicant would change."""

    feature: str
    before: Value
    after: Value


@dataclass(frozen=True, slots=True)
class Vote:
    """What one black box said: whether it accepts; None where it did not answer."""

    model: str
    accepts: bool | None


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A record that should be accepted; agreement and lower_bound are None where no black box was asked.

    actions: what somebody has to do: each change, or a wait, with what follows from it
    typicality: the share of real records of the target class that lie less densely; None where none is known
    """

    record: dict[str, Value]
    changes: tuple[Change, ...]
    actions: tuple[Action, ...]
    cost: float
    density: float
    typicality: float | None
    trusted: bool
    expected_agreement: float
    votes: tuple[Vote, ...]
    agreement: float | None
    lower_bound: float | None


@dataclass(frozen=True, slots=True)
class Binding:
    """A feature that may not move as it would have to: how much expected agreement one change of it would bring."""

    feature: str
    gain: float


class Certificate(StrEnum):
    """How sure it is that there is no answer."""

    PROVEN = "proven"
    """The rules leave nothing, or every record that is left was put to the models."""
    EXCLUDED_BY_SURROGATE = "excluded_by_surrogate"
    """Every record that is left was listed; what was not put to the models is expected to be refused."""
    NOT_FOUND = "not_found"
    """Too many records are left to list them; the search found none."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why there is no answer: the best agreement found, who dissented there, and which constraints are in the way.

    certificate: how sure that is; points: how many records the applicant may become, None where they were not listed
    """

    best_agreement: float
    verified: bool
    dissenting: tuple[str, ...]
    binding: tuple[Binding, ...]
    advice: str
    certificate: Certificate = Certificate.NOT_FOUND
    points: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to one record.

    queries: records that were put to the black boxes for it; charged: how many of them cost a query, because what the
    black boxes say of them was not known before
    notices: what to know of the record itself, as a number beyond those of the training data
    """

    status: Status
    counterfactuals: tuple[Counterfactual, ...]
    queries: int
    diagnosis: Diagnosis | None = None
    error: str | None = None
    charged: int = 0
    notices: tuple[str, ...] = ()


class Stage(StrEnum):
    """What a point on the way to an answer is."""

    RECORD = "record"
    """The applicant's own record, where the way begins."""
    FLOW = "flow"
    """A point of the flow's path that ended nearest to the answer."""
    LOCAL_SEARCH = "local_search"
    """On from there, some of what local search and verification changed."""
    ANSWER = "answer"
    """The answer, where the way ends."""


@dataclass(frozen=True, slots=True)
class PathPoint:
    """One point on the way: its place in it from 0 to 1, the decoded record, its cost and expected agreement."""

    stage: Stage
    time: float
    record: dict[str, Value]
    cost: float
    expected_agreement: float
