"""Why a record has no answer (METHOD.md, section 6.6): who dissents, and which constraints are in the way."""

from dataclasses import replace

import numpy as np

from ..arrays import Targets
from ..data.schema import Direction, Feature
from ..model import RecourseModel
from ..space.constraints import Constraints, compile_constraints
from ..space.feasible import FeasibleSet
from .answers import Binding, Diagnosis
from .candidates import Candidates
from .local_search import best_of_each_feature


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


def diagnose(
    agreement: float, verified: bool, dissenting: tuple[str, ...], binding: tuple[Binding, ...], wanted: float
) -> Diagnosis:
    """The diagnosis in figures, and what to do about it in a sentence."""
    if binding:
        names = ", ".join(entry.feature for entry in binding)
        advice = f"Let {names} change, if the applicant can change them, or ask for less agreement than {wanted:.2f}."
    elif verified and agreement == 0.0:
        advice = "No model accepts what this applicant may become, and no single change would do; let more change."
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
