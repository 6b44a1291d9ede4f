"""The trained model: everything that the search needs, and nothing of the training data."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from .arrays import Records
from .config import Config
from .networks.surrogate import SurrogatePair
from .networks.velocity import Velocity
from .space.anchors import Anchors
from .space.constraints import Constraints, compile_constraints
from .space.encoding import Encoder
from .space.feasible import FeasibleSet
from .space.snapping import Snapper


@dataclass(frozen=True, eq=False)
class Calibration:
    """Turns the networks' mean log-probabilities into the expected share of votes: softmax(slope * log p + bias)

    This is Platt scaling for several classes, fitted to the votes that were bought.   bias (K,)
    """

    slope: float
    bias: NDArray[np.float64]

    @classmethod
    def identity(cls, classes: int) -> "Calibration":
        return cls(1.0, np.zeros(classes))


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One cost weight, with the mean cost and the mean expected agreement of the answers on the validation split."""

    cost_weight: float
    cost: float
    agreement: float


@dataclass(frozen=True, eq=False)
class RecourseModel:
    """A trained model: a generator, its distilled surrogate, and how far the validation split says that they reach.

    encoder             records to points of the encoded space and back (METHOD.md, section 1)
    pair                the surrogate f, two networks (section 2)
    velocity            the generator's velocity field (section 3)
    calibration         from the surrogate's output to the expected share of votes
    generated_features  the features that the generator may change; all others count as immutable
    queries             records that the training put to the black boxes (section 4)
    frontier            cost against expected agreement, by cost weight (section 6.2)
    anchors             points that nearly all jurors vote for, as further places to head for
    density_quantiles   percentiles of the density score of real records, for each class
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

    def feasible(self, records: Records) -> FeasibleSet:
        """What records (n, F) may become by the schema alone, where only the generated features change"""
        frozen = frozenset(self.encoder.schema.names) - self.generated_features
        return compile_constraints(self.encoder.schema, Constraints(immutable=frozen), records)
