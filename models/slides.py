"""Slides: moves of all numbers of a candidate at once, straight to where the cheapest way is expected to end.

Moves of one feature climb along the axes. Where the votes turn on a slanted front, the nearest point behind it is
reached along the slope: the logit of the agreement is taken to be linear, so the numbers go from home along its
gradient, as far as the price says. Repeated, that is the first-order search for the nearest point of a limit state.
"""

import numpy as np
from numpy.typing import NDArray

from models.encoding import Encoder
from models.matrix import Encoded, Records
from models.moves import Ground
from models.scoring import Slopes

LEVELS = np.linspace(-2.0, 9.0, 12)
"""How far to go is chosen among the distances that would bring the logit to these."""
SHARES = np.array([0.5, 1.0])
"""And so much of the way there is made: the slope may bend."""
FLAT = 1e-12
"""A squared slope of less is none."""

Floats = NDArray[np.float64]


def slides(
    encoder: Encoder, ground: Ground, current: Records, at: Encoded, paid: Floats, slopes: Slopes, price: Floats
) -> Records:
    """current (n, F) at points (n, D), whose cost is paid (n,) -> where slides lead (n, 4, F), within the limits

    Two slide the numbers that are changed already, two all that may change.
    """
    catalogue = ground.catalogue
    moves = catalogue.numbers
    if not len(moves):
        return np.empty((len(current), 0, current.shape[1]))
    numbers, columns = catalogue.feature[moves], catalogue.first[moves]
    # Taken, not indexed: sums along the last axis must not depend on the layout that a batch gives it.
    here, spot = current.take(numbers, axis=1), at.take(columns, axis=1)
    home, slope = ground.home.take(columns, axis=1), slopes.gradient.take(columns, axis=1)
    free = ground.opened.take(moves, axis=1) & ~np.isnan(here)
    masks = np.stack([free & (spot != home), free], axis=1)
    far = _distance(masks, slope[:, None], (home - spot)[:, None], slopes.logit, paid, price)
    way = (home - spot)[:, None] + far * slope[:, None]
    points = spot[:, None, None] + SHARES[:, None] * way[:, :, None]
    values = encoder.mean[numbers] + encoder.scale[numbers] * points
    lower, upper = ground.lower.take(moves, axis=1)[:, None, None], ground.upper.take(moves, axis=1)[:, None, None]
    values = catalogue.grid.at(moves).snap(np.minimum(np.maximum(values, lower), upper))
    values = np.where(masks[:, :, None], values, here[:, None, None])
    slid = np.repeat(current[:, None], masks.shape[1] * len(SHARES), axis=1)
    slid[:, :, numbers] = values.reshape(len(current), -1, len(numbers))
    return slid


def _distance(
    masks: NDArray[np.bool_], slope: Floats, back: Floats, logit: Floats, paid: Floats, price: Floats
) -> Floats:
    """masks (n, s, P), slope and the way back home (n, 1, P) -> how far from home, in slopes (n, s, 1)"""
    sums = (np.stack([slope * slope, slope * back, back * back]) * masks).sum(axis=3, keepdims=True)
    squares, start = sums[0], logit[:, None, None] + sums[1]
    fixed = np.maximum((paid * paid)[:, None, None] - sums[2], 0.0)
    far = np.maximum((LEVELS - start) / np.maximum(squares, FLAT), 0.0)
    agreement = 1.0 / (1.0 + np.exp(-(start + far * squares)))
    value = agreement - price[:, None, None] * np.sqrt(fixed + far * far * squares)
    return np.take_along_axis(far, value.argmax(axis=2)[..., None], axis=2)
