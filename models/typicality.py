"""How typical an answer is: the share of real records of its class that lie less densely.

The paper's trust region, S >= log tau, tells data from noise that fills a box; in many dimensions nearly everything
passes. What density is usual is said by real records that no network was taught on: those of the validation split.
"""

import numpy as np

from models.density import trust_threshold
from models.matrix import Records
from models.model import RecourseModel
from models.scoring import Targets, score_points

PERCENTS = np.linspace(0.0, 1.0, 101)
USUAL = 0.05
"""An answer that is less typical than this is not trusted."""


def measure_usual_scores(model: RecourseModel, records: Records, labels: Targets) -> tuple[tuple[float, ...], ...]:
    """records (n, F), labels (n,) -> the percentiles of the density score in each class, none where it has no record"""
    scores = score_points(model, model.encoder.encode(records), labels).density
    classes = (scores[labels == label] for label in range(len(model.classes)))
    return tuple(tuple(np.quantile(own, PERCENTS).tolist()) if len(own) else () for own in classes)


def typicality(model: RecourseModel, target: int, density: float) -> float | None:
    """The share of real records of the target class with a lower score; None where no such record is known"""
    usual = model.usual_scores[target] if model.usual_scores else ()
    return float(np.interp(density, usual, PERCENTS)) if usual else None


def is_trusted(model: RecourseModel, density: float, typical: float | None) -> bool:
    """In the paper's trust region, and not among the least typical"""
    return density >= trust_threshold(model.config.noise) and (typical is None or typical >= USUAL)
