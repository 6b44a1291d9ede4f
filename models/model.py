"""The trained model: everything that the search needs, and nothing of the training data."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from .arrays import Records
from .config import Config
from .data.policy import Policy
from .networks.surrogate import SurrogatePair
from .networks.velocity import Velocity
from .space.anchors import Anchors
from .space.constraints import Constraints
from .space.encoding import Encoder
from .space.feasible import FeasibleSet
from .space.prepared import Prepared, prepare
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
    policy              what can be done about a record; it may be replaced without training
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
    policy: Policy = field(default_factory=lambda: Policy({}, ()))

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

    def prepared(self, constraints: Constraints, records: Records) -> Prepared:
        """What records (n, F) may become under a request's constraints, where only the generated features change"""
        return prepare(self.encoder.schema, self.generated_features, constraints, records, self.policy)

    def feasible(self, records: Records) -> FeasibleSet:
        """What records (n, F) may become by schema and policy alone"""
        return self.prepared(Constraints(), records).feasible
