"""The trained model: everything that the search needs, and nothing of the training data."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from .config import Config
from .networks.ranker import CandidateRanker
from .networks.surrogate import SurrogatePair
from .networks.velocity import Velocity
from .space.anchors import Anchors
from .space.encoding import Encoder
from .space.snapping import Snapper


@dataclass(frozen=True, eq=False)
class Calibration:
    """Turns the networks' mean log-probabilities into the expected share of votes: softmax(slope * log p + bias)."""

    slope: float
    bias: NDArray[np.float64]

    @classmethod
    def identity(cls, classes: int) -> "Calibration":
        return cls(1.0, np.zeros(classes))


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One setting of the dial, measured on the validation split without a query: price, mean cost, mean agreement."""

    cost_weight: float
    cost: float
    agreement: float


@dataclass(frozen=True, eq=False)
class RecourseModel:
    """A generator, its distilled surrogate, and how far the validation split says that they reach.

    usual_scores: percentiles of the density score of real records, for each class (models/typicality.py)
    scout: ranks where paths end (models/scout.py); without one all of them are scored
    """

    encoder: Encoder
    config: Config
    pair: SurrogatePair
    velocity: Velocity
    calibration: Calibration
    generated_features: frozenset[str]
    seed: int
    queries: int = 0
    frontier: tuple[FrontierPoint, ...] = field(default=())
    anchors: Anchors = field(default_factory=lambda: Anchors.none(0))
    density_quantiles: tuple[tuple[float, ...], ...] = ()
    ranker: CandidateRanker | None = None

    @cached_property
    def device(self) -> torch.device:
        """Where the networks are"""
        return next(self.velocity.parameters()).device

    @cached_property
    def snapper(self) -> Snapper:
        """The encoder's grid, on the device of the networks"""
        return Snapper(self.encoder, self.device)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.encoder.schema.classes
