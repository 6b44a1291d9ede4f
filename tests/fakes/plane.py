"""A search whose answers can be worked out by hand: numbers, a linear surrogate, known boundaries."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from models.arrays import Records
from models.config import Config, SurrogateConfig
from models.data.schema import Feature, FeatureKind, Schema
from models.model import Calibration, RecourseModel
from models.space.encoding import Encoder
from tests.models.tiny import TINY, random_model

FAR = 16.0
"""The surrogate is linear between -FAR and FAR: within, no unit of its network is off."""


def plane(*names: str) -> Encoder:
    """Numbers of mean 0 and deviation 1 on a fine grid: a record is its own point."""
    numbers = tuple(Feature(name, FeatureKind.NUMERIC, lower=-9.0, upper=9.0, step=1e-6) for name in names)
    count = len(names)
    schema = Schema(numbers, "label", ("no", "yes"))
    return Encoder(schema, np.zeros(count), np.zeros(count), np.ones(count))


def linear_model(encoder: Encoder, slope: list[float], bias: float = 0.0) -> RecourseModel:
    """A model that expects the share sigmoid(slope . x + bias) of the votes to say "yes" (class 1) of a point x."""
    config: Config = replace(TINY, surrogate=SurrogateConfig(width=16, jury=False))
    drawn = random_model(encoder, config)
    # The first network says nothing; the second says it all, and the slope of 2 takes the mean of the two back.
    model = replace(drawn, calibration=Calibration(2.0, np.zeros(2)))
    first, second = model.pair.first, model.pair.second
    below, _, above, _ = second.trunk
    assert isinstance(below, torch.nn.Linear) and isinstance(above, torch.nn.Linear)
    assert first.votes is not None and second.votes is not None
    width = encoder.width
    with torch.no_grad():
        for layer in (first.votes, second.votes, below, above):
            layer.weight.zero_()
            layer.bias.zero_()
        below.weight[:width] = torch.eye(width)
        below.bias[:width] = FAR
        above.weight.copy_(torch.eye(len(above.weight)))
        second.votes.weight[1, :width] = torch.tensor(slope)
        second.votes.bias[1] = bias - FAR * sum(slope)
    return model


class Boundary:
    """Black boxes that say "yes" exactly where their condition holds; they keep what they were asked, in its order."""

    def __init__(self, *accepts: Callable[[Records], NDArray[np.bool_]]) -> None:
        self.accepts = accepts
        self.asked: list[Records] = []

    @property
    def member_names(self) -> tuple[str, ...]:
        return tuple(f"member-{position}" for position in range(len(self.accepts)))

    @property
    def classes(self) -> tuple[str, ...]:
        return "no", "yes"

    @property
    def records(self) -> Records:
        """All that was asked (q, F)"""
        return np.concatenate(self.asked)

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> (m, n, 2)"""
        self.asked.append(records.copy())
        said = np.stack([accepts(records) for accepts in self.accepts])
        return np.stack([np.where(said, 0.1, 0.9), np.where(said, 0.9, 0.1)], axis=2)
