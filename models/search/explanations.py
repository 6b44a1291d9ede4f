"""From what a search found to its explanations: how each record ended, its answers in raw values, or why it has none.

A diagnosis (METHOD.md, section 6.6) says who dissents, and which constraints are in the way.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Targets
from ..config import SearchConfig
from ..data.records import from_records, record_notices
from ..data.schema import Direction, Feature
from ..ensemble.votes import beta_lower_bound
from ..model import RecourseModel
from ..space.actions import changes_as_actions
from ..space.constraints import Constraints, compile_constraints
from ..space.feasible import FeasibleSet
from .answers import Binding, Certificate, Change, Counterfactual, Diagnosis, Explanation, Status, Vote
from .candidates import Candidates
from .exhaustive import Listing
from .local_search import best_of_each_feature
from .scoring import is_trusted, typicality
from .verification import Verification


@dataclass(frozen=True, eq=False)
class AsItIs:
    """The n records without a change.

    already   (n,)    whether they are in the target class as it was asked for
    fits      (n,)    whether the constraints allow them to stay as they are
    expected  (n,)    the agreement that the surrogate expects
    votes     (m, n)  what the ensemble said where it was asked; answered (m, n) says whose
    agreement (n,)    of the ensemble, NaN where it was not asked
    queries   (n,)    what it took to know; charged (n,) what that cost
    """

    already: NDArray[np.bool_]
    fits: NDArray[np.bool_]
    expected: Floats
    votes: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    agreement: Floats
    queries: NDArray[np.intp]
    charged: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Answer:
    """One answer a record (n, 1); `verified` where the ensemble was asked, queries (n,).

    changed  (n,)  whether it differs from the record: to change nothing is never a way
    better   (n,)  whether it differs, and has more agreement than the record as it is, as far as that is known
    given    (n,)  whether there is one to give
    listing        what the records may become, where that was listed; None: no record was without an answer
    """

    chosen: Candidates
    verified: Verification | None
    queries: NDArray[np.intp]
    changed: NDArray[np.bool_]
    better: NDArray[np.bool_]
    given: NDArray[np.bool_]
    listing: Listing | None


def explanations(
    model: RecourseModel,
    target: Targets,
    feasible: FeasibleSet,
    own: AsItIs,
    answers: list[Answer],
    config: SearchConfig,
    members: tuple[str, ...],
) -> list[Explanation]:
    """The answers in the words of the service; `members` are the models that were asked, none where none was."""
    statuses = _statuses(own, answers, config)
    lost = np.flatnonzero([status is Status.INFEASIBLE for status in statuses])
    diagnoses = _diagnoses(model, target, feasible, own, answers[0], config, members, lost)
    queries = own.queries + sum(answer.queries for answer in answers)
    found = []
    for row, status in enumerate(statuses):
        given = [answer for answer in answers if answer.given[row] and status is not Status.ALREADY_TARGET]
        ways = tuple(_counterfactual(model, answer, row, int(target[row]), feasible, members) for answer in given)
        notices = record_notices(model.encoder.schema, feasible.origin[row])
        found.append(Explanation(status, ways, int(queries[row]), diagnoses.get(row), notices=notices))
    return found


def _diagnoses(
    model: RecourseModel,
    target: Targets,
    feasible: FeasibleSet,
    own: AsItIs,
    answer: Answer,
    config: SearchConfig,
    members: tuple[str, ...],
    rows: NDArray[np.intp],
) -> dict[int, Diagnosis]:
    """Why each of `rows` (r,) has no answer; `answer` is the best that was found."""
    if not len(rows):
        return {}
    bindings = binding_constraints(model, answer.chosen.take_rows(rows), target[rows], feasible.rows(rows))
    wanted = config.min_agreement if members else config.min_expected_agreement
    found = {}
    for row, binding in zip(rows.tolist(), bindings, strict=True):
        share, verified, dissenting = _best_agreement(own, answer, row, members)
        held, better = frozen_features(model, feasible, row), bool(answer.better[row])
        known = diagnose(share, verified, dissenting, binding, wanted, held, better)
        found[row] = known
        if (listing := answer.listing) is not None and (points := int(listing.points[row])) >= 0:
            proof = _certificate(float(listing.sure[row]), max(config.min_expected_agreement, 0.5))
            found[row] = replace(known, certificate=proof, points=points)
    return found


def _certificate(sure: float, floor: float) -> Certificate:
    """How sure it is that a record has no answer, whose possibilities were listed; sure: the most that is expected of
    what was not asked"""
    if sure >= floor:
        return Certificate.NOT_FOUND
    return Certificate.PROVEN if sure == 0.0 else Certificate.EXCLUDED_BY_SURROGATE


def _best_agreement(
    own: AsItIs, answer: Answer, row: int, members: tuple[str, ...]
) -> tuple[float, bool, tuple[str, ...]]:
    """Of the answer or of the record as it is: the agreement, whether it is verified, and who dissents"""
    known = float(own.agreement[row])
    if answer.verified is not None and answer.verified.queries[row] and not answer.verified.agreement[row] < known:
        said, heard = answer.verified.votes[:, row], answer.verified.answered[:, row]
        known = float(answer.verified.agreement[row])
    elif np.isnan(known):
        return float(answer.chosen.agreement[row, 0]), False, ()
    else:
        said, heard = own.votes[:, row], own.answered[:, row]
    return known, True, tuple(name for name, s, h in zip(members, said, heard, strict=True) if h and not s)


def _statuses(own: AsItIs, answers: list[Answer], config: SearchConfig) -> list[Status]:
    """How each record (n,) ended. Whatever answer led there: a record that is accepted as it is needs none."""
    first, already = answers[0], own.already.copy()
    for answer in answers:
        if answer.verified is not None:
            already |= answer.verified.found & ~answer.changed
    valid = expects_enough(first.chosen, config.min_expected_agreement) & first.better
    robust = np.zeros_like(already)
    if first.verified is not None:
        robust = first.verified.found
        valid = np.where(first.verified.queries > 0, (first.verified.agreement > 0.5) & first.better, valid)
    cases = [already, robust, valid]
    names = [Status.ALREADY_TARGET, Status.ROBUST, Status.VALID]
    which = np.select(cases, np.arange(len(cases)), len(cases))
    return [[*names, Status.INFEASIBLE][case] for case in which.tolist()]


def expects_enough(chosen: Candidates, floor: float) -> NDArray[np.bool_]:
    """chosen (n, 1) -> whether most models, and the least share that was asked for, are expected to agree (n,)"""
    enough: NDArray[np.bool_] = chosen.agreement[:, 0] >= max(floor, 0.5)
    return enough


def _counterfactual(
    model: RecourseModel, answer: Answer, row: int, target: int, feasible: FeasibleSet, members: tuple[str, ...]
) -> Counterfactual:
    """The answer to one record, in raw values."""
    schema, rules, chosen = model.encoder.schema, feasible.rules, answer.chosen.records[row, 0]
    before, after = from_records(schema, np.stack([feasible.origin[row], chosen]))
    changes = tuple(Change(name, before[name], after[name]) for name in schema.names if before[name] != after[name])
    votes: tuple[Vote, ...] = ()
    share: float | None = None
    bound: float | None = None
    if answer.verified is not None and answer.verified.queries[row]:
        said, heard = answer.verified.votes[:, row], answer.verified.answered[:, row]
        votes = tuple(Vote(name, bool(s) if h else None) for name, s, h in zip(members, said, heard, strict=True))
        share = float(answer.verified.agreement[row])
        bound = beta_lower_bound(int(said.sum()), int((~said).sum()))
    density = float(answer.chosen.density[row, 0])
    typical = typicality(model, target, density)
    return Counterfactual(
        record=after,
        changes=changes,
        actions=changes_as_actions(before, after) if rules is None else tuple(rules.actions_of(row, chosen)),
        cost=float(answer.chosen.cost[row, 0]),
        density=density,
        typicality=typical,
        trusted=is_trusted(model, density, typical),
        expected_agreement=float(answer.chosen.agreement[row, 0]),
        votes=votes,
        agreement=share,
        lower_bound=bound,
    )


def binding_constraints(
    model: RecourseModel, best: Candidates, target: Targets, feasible: FeasibleSet
) -> list[tuple[Binding, ...]]:
    """best (n, 1) -> for each record the features whose constraints are most in the way, at most
    `named_constraints` of them

    A feature binds where one change of it, were it free, would raise the expected agreement. Protected features are
    never named: no answer says that another sex or race would have helped.
    """
    schema, config = model.encoder.schema, model.config.search
    free = replace(schema, features=tuple(_freed(feature) for feature in schema.features))
    fixed = frozenset(feature.name for feature in schema.features if feature.protected)
    relaxed = compile_constraints(free, Constraints(immutable=fixed), feasible.origin)
    moves = best_of_each_feature(model, best, target, relaxed)
    named = []
    for row in range(len(best.cost)):
        gains: dict[str, float] = {}
        for move in range(moves.cost.shape[1]):
            here, there = best.records[row, 0], moves.records[row, move]
            changed = np.flatnonzero((there != here) & ~(np.isnan(there) & np.isnan(here)))
            gain = float(moves.agreement[row, move] - best.agreement[row, 0])
            for j in changed:
                if gain >= model.config.search.least_gain and _forbidden(
                    feasible, row, int(j), float(moves.records[row, move, j])
                ):
                    gains[schema.names[j]] = max(gains.get(schema.names[j], 0.0), gain)
        ordered = sorted(gains.items(), key=lambda entry: -entry[1])[: config.named_constraints]
        named.append(tuple(Binding(name, gain) for name, gain in ordered))
    return named


def frozen_features(model: RecourseModel, feasible: FeasibleSet, row: int) -> tuple[str, ...]:
    """Where nothing of a record may change, what is frozen: what the request holds, else what the schema does

    Protected features are never named, as in `binding_constraints`.
    """
    if feasible.movable[row].any():
        return ()
    features = [feature for feature in model.encoder.schema.features if not feature.protected]
    asked = [each.name for each in features if not each.immutable and each.name in model.generated_features]
    return tuple(asked or [each.name for each in features])


def diagnose(
    agreement: float,
    verified: bool,
    dissenting: tuple[str, ...],
    binding: tuple[Binding, ...],
    wanted: float,
    frozen: tuple[str, ...] = (),
    better: bool = True,
) -> Diagnosis:
    """The diagnosis in figures, and what to do about it in a sentence.

    frozen: all that the applicant might change, where nothing of it may; better: whether the best that was found beats
    the record as it is
    """
    if frozen:
        verb = "is" if len(frozen) == 1 else "are"
        advice = f"Nothing may change, because {', '.join(frozen)} {verb} frozen; let at least one feature change."
    elif binding:
        names = ", ".join(entry.feature for entry in binding)
        advice = f"Let {names} change, if the applicant can change them, or ask for less agreement than {wanted:.2f}."
    elif verified and agreement == 0.0:
        advice = "No model accepts what this applicant may become, and no single change would do; let more change."
    elif not better and not verified:
        advice = "At this price no change is expected to convince more models than accept the record as it is; lower "
        advice += "the price, let more change, or ask the models themselves (max_queries above 0)."
    elif dissenting:
        advice = f"Ask for less agreement than {wanted:.2f}, or allow more queries: {', '.join(dissenting)} dissent."
    else:
        advice = "Allow more candidates or more queries; no constraint is in the way of the nearest answer."
    return Diagnosis(agreement, verified, dissenting, binding, advice)


def _freed(feature: Feature) -> Feature:
    return replace(feature, immutable=feature.protected, direction=Direction.ANY)


def _forbidden(feasible: FeasibleSet, row: int, j: int, value: float) -> bool:
    """Whether the constraints forbid this value of feature j"""
    if not feasible.movable[row, j]:
        return True
    if np.isnan(value):
        return not bool(feasible.missing[row, j])
    if feasible.levels[row, j].any():
        return not bool(feasible.levels[row, j, int(value)])
    return not bool(feasible.lower[row, j] <= value <= feasible.upper[row, j])
