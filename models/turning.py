"""Directions beside an answer's own: where queries are plenty, chance finds what the surrogate overlooks."""

import numpy as np

from models.allowed import Allowed
from models.candidates import Candidates, Floats, measure
from models.model import RecourseModel
from models.scoring import Targets

TURNS = 32
"""So many directions are looked at in each round."""
SPREADS = np.array([0.1, 0.25, 0.5, 1.0])
"""How far they turn aside: the length of the chance step beside the unit step of the answer."""
KEPT = np.array([0.8, 0.9, 0.95, 0.98])
"""How much of the answer's distance is kept there."""


def turned(
    model: RecourseModel, best: Candidates, target: Targets, allowed: Allowed, random: np.random.Generator
) -> Candidates:
    """From best (n, 1): points nearer to the record in other directions, scored (n, TURNS); the same turns for all"""
    origin = model.encoder.encode(allowed.origin)[:, None]
    step = best.points - origin
    length = np.linalg.norm(step, axis=2, keepdims=True)
    beside = _unit(step) + _asides(step.shape[2], random)
    kept = np.repeat(KEPT, TURNS // len(KEPT))[:, None]
    points = origin + kept * length * _unit(beside)
    decoded = model.encoder.decode(points.reshape(-1, step.shape[2]), allowed=allowed.repeat(TURNS))
    return measure(model, decoded.reshape(len(step), TURNS, -1), target, origin[:, 0])


def _asides(width: int, random: np.random.Generator) -> Floats:
    """Chance steps (TURNS, width), of each spread in turn"""
    steps: Floats = _unit(random.normal(size=(TURNS, width))) * np.resize(SPREADS, TURNS)[:, None]
    return steps


def _unit(steps: Floats) -> Floats:
    """steps (..., D) at length 1"""
    units: Floats = steps / np.maximum(np.linalg.norm(steps, axis=-1, keepdims=True), 1e-12)
    return units
