"""Small tasks, a lender whose models are known, and networks of random weights: what the engine's tests share."""

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from models.arrays import Records, Targets
from models.config import Config, DistillConfig, FlowConfig, GeneratorConfig, JuryConfig, SurrogateConfig
from models.datasets.dataset import Dataset, Splits, split_dataset
from models.model import Calibration, RecourseModel
from models.networks.surrogate import SurrogatePair
from models.networks.velocity import GuidedVelocity, Request, make_velocity
from models.space.constraints import Constraints, compile_constraints
from models.space.encoding import Encoder
from models.space.feasible import FeasibleSet

TINY = Config(
    surrogate=SurrogateConfig(width=16, jury=False, steps=30, batch=64),
    flow=FlowConfig(width=16, context=16, steps=2),
    generator=GeneratorConfig(steps=20, batch=64),
    distill=DistillConfig(rounds=2, queries=6, surrogate_steps=3, generator_steps=2),
    jury=JuryConfig(draws=1, forest_trees=20, boosted_trees=20, perceptron_epochs=10),
)


Task: TypeAlias = Splits
"""A data set, split and encoded."""


def make_task(dataset: Dataset, seed: int = 0) -> Task:
    return split_dataset(dataset, seed)


class Scorecards:
    """A lender's three scorecards, linear in the encoded record; they count what they are asked."""

    def __init__(self, encoder: Encoder, seed: int = 0) -> None:
        self.encoder = encoder
        self.weights = np.random.default_rng(seed).normal(size=(3, encoder.width, len(encoder.schema.classes)))
        self.asked: list[Records] = []

    @property
    def member_names(self) -> tuple[str, ...]:
        return "strict", "mild", "odd"

    @property
    def classes(self) -> tuple[str, ...]:
        return self.encoder.schema.classes

    @property
    def count(self) -> int:
        """Records asked, each one as often as it was asked."""
        return sum(len(records) for records in self.asked)

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> (3, n, K)"""
        self.asked.append(records.copy())
        points = self.encoder.encode(records)
        odds = np.exp(np.stack([points @ card for card in self.weights]))
        shares: NDArray[np.float64] = odds / odds.sum(axis=2, keepdims=True)
        return shares


def random_model(encoder: Encoder, config: Config, seed: int = 0) -> RecourseModel:
    """A model that nobody trained: its weights are random, those of the last layer too, so that its flow moves."""
    classes = len(encoder.schema.classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        pair = SurrogatePair(encoder.width, classes, config.surrogate).eval()
        velocity = make_velocity(encoder.width, classes, config.flow)
        torch.nn.init.normal_(velocity.out.weight, std=2.0 / config.flow.width**0.5)
        torch.nn.init.normal_(velocity.guide.bias if isinstance(velocity, GuidedVelocity) else velocity.out.bias)
    calibration, names = Calibration(1.5, np.linspace(-0.3, 0.4, classes)), frozenset(encoder.schema.names)
    return RecourseModel(encoder, config, pair, velocity, calibration, names, seed)


def feasible_by_schema(encoder: Encoder, records: Records) -> FeasibleSet:
    """What the schema alone lets the records (n, F) become."""
    return compile_constraints(encoder.schema, Constraints(), records)


def other_class(labels: Targets, classes: int) -> Targets:
    """The class after each label (n,) -> (n,)"""
    return (labels + 1) % classes


def random_request(count: int, width: int, classes: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Request:
    """`count` requests with about a third of the columns frozen, in a box from -3 to 3"""
    random = torch.Generator().manual_seed(seed)
    point = torch.randn(count, width, generator=random, dtype=dtype).clamp(-2.5, 2.5)
    movable = torch.rand(count, width, generator=random) < 0.67
    return Request(
        point=point,
        target=torch.randint(classes, (count,), generator=random),
        log_cost=torch.randn(count, generator=random, dtype=dtype),
        movable=movable,
        lower=torch.where(movable, torch.full_like(point, -3.0), point),
        upper=torch.where(movable, torch.full_like(point, 3.0), point),
    )
