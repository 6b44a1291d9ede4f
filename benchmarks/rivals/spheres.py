"""Growing spheres (Laugel et al., 2017) for many records in step: the nearest accepted point, layer by layer.

Points are drawn in a ball around each start and the ball is halved while any of them is accepted; then layers of that
width are drawn further and further out until one holds an accepted point, and the nearest of those is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from models.arrays import Encoded, Records
from models.space.encoding import Encoder

Accept: TypeAlias = Callable[[Records, NDArray[np.intp]], NDArray[np.bool_]]
"""Decoded records (r, F) and the case of each (r,) -> whether each is accepted (r,)"""


@dataclass(frozen=True, slots=True)
class SphereConfig:
    """`points` in each layer, the first radius, and how many times a ball is halved and a layer added at most.

    The authors of BetaRCE draw 100 points in layers of a tenth of each feature's range; a tenth of a range of four
    standard deviations is 0.4 here.
    """

    points: int = 100
    radius: float = 0.4
    halvings: int = 6
    layers: int = 60


@dataclass(frozen=True, eq=False)
class Found:
    """records (n, F), and whether each was found (n,)"""

    records: Records
    found: NDArray[np.bool_]


def grow_spheres(
    encoder: Encoder, starts: Records, accept: Accept, config: SphereConfig, random: np.random.Generator
) -> Found:
    """starts (n, F) -> the nearest accepted record around each; the start where there is none"""
    state = _State(encoder, starts, accept, config, random)
    width = np.full(len(starts), config.radius)
    shrinking = np.arange(len(starts))
    for _ in range(config.halvings):
        hit = state.draw(shrinking, np.zeros(len(shrinking)), width[shrinking])
        shrinking = shrinking[hit]
        width[shrinking] /= 2
        if not len(shrinking):
            break
    # What the balls held lies further out than their radius now, which is empty: the layers look again from there.
    state.forget()
    inner, pending = width.copy(), np.arange(len(starts))
    inner[shrinking] = 0.0
    for _ in range(config.layers):
        hit = state.draw(pending, inner[pending], inner[pending] + width[pending])
        inner[pending] += width[pending]
        pending = pending[~hit]
        if not len(pending):
            break
    return Found(state.records, state.found)


class _State:
    """The best record of each case so far, and the draws that may better it."""

    def __init__(
        self, encoder: Encoder, starts: Records, accept: Accept, config: SphereConfig, random: np.random.Generator
    ) -> None:
        self.encoder, self.starts, self.accept, self.config, self.random = encoder, starts, accept, config, random
        self.centres: Encoded = encoder.encode(starts)
        self.forget()

    def forget(self) -> None:
        self.records, self.found = self.starts.copy(), np.zeros(len(self.starts), dtype=np.bool_)

    def draw(
        self, cases: NDArray[np.intp], inner: NDArray[np.float64], outer: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """A layer from inner to outer (p,) around each of cases (p,) -> whether it holds an accepted point (p,)"""
        each, width = self.config.points, self.encoder.width
        rows = np.repeat(cases, each)
        steps = layer_points(len(rows), width, np.repeat(inner, each), np.repeat(outer, each), self.random)
        trial = self.encoder.decode(self.centres[rows] + steps, origin=self.starts[rows])
        taken = self.accept(trial, rows).reshape(len(cases), each)
        away = np.linalg.norm(self.encoder.encode(trial) - self.centres[rows], axis=1).reshape(len(cases), each)
        best = np.where(taken, away, np.inf).argmin(axis=1)
        hit = np.asarray(taken.any(axis=1), dtype=np.bool_)
        chosen = np.flatnonzero(hit) * each + best[hit]
        self.records[cases[hit]], self.found[cases[hit]] = trial[chosen], True
        return hit


def layer_points(
    count: int, width: int, inner: NDArray[np.float64], outer: NDArray[np.float64], random: np.random.Generator
) -> Encoded:
    """(count, width) steps, uniform over directions and over the volume between the radii inner and outer (count,)"""
    directions = random.normal(size=(count, width))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    share = random.uniform(size=count)
    # (outer^D - inner^D) overflows for wide data; the ratio does not.
    ratio = (inner / outer) ** width
    lengths = outer * (ratio + share * (1.0 - ratio)) ** (1.0 / width)
    steps: Encoded = directions * lengths[:, None]
    return steps
