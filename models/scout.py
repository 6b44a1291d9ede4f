"""The scout: a small network that says which ends of paths are worth a closer look.

It guesses, from the point where a path ends, what the surrogate pair would say of the record that the point decodes to.
It is a twentieth of the pair's size, and it is asked before anything is decoded: a search that knows its price has only
the most promising ends decoded and judged by the pair. Nothing that the scout says is ever reported.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from models.matrix import Encoded
from models.padding import chunks, padded

WORTH, SURE = 4, 2
"""So many ends go on for what they are worth at the price, and so many for their agreement at any price."""

Floats = NDArray[np.float64]


class Scout(nn.Module):
    """Points (B, D) -> the shares of votes (B, K) that the pair expects for the records that they decode to"""

    def __init__(self, width_in: int, classes: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width_in, width), nn.Linear(width, width)
        self.out = nn.Linear(width, classes)

    def forward(self, points: Tensor) -> Tensor:
        """points (B, D) -> the logarithms of the shares, up to what all classes have in common (B, K)"""
        said: Tensor = self.out(functional.relu(self.second(functional.relu(self.first(points)))))
        return said


def shortlist(
    scout: Scout, ends: NDArray[np.float32], origin: Encoded, target: NDArray[np.int64], price: Floats
) -> NDArray[np.intp]:
    """The positions (n, WORTH + SURE) of the most promising of ends (n, c, D); all of them where there are no more

    origin (n, D), target (n,), price (n,). One end may be listed for both reasons.
    """
    count, each = ends.shape[:2]
    if each <= WORTH + SURE:
        return np.tile(np.arange(each), (count, 1))
    agreement = _agreement(scout, ends.reshape(count * each, -1), np.repeat(target, each)).reshape(count, each)
    way = ends - origin.astype(np.float32)[:, None]
    worth = agreement - price[:, None] * np.sqrt((way * way).sum(axis=2))
    best, surest = (np.argsort(-values, axis=1, kind="stable") for values in (worth, agreement))
    return np.concatenate([best[:, :WORTH], surest[:, :SURE]], axis=1)


def _agreement(scout: Scout, points: NDArray[np.float32], target: NDArray[np.int64]) -> NDArray[np.float32]:
    """points (n, D), target (n,) -> the expected share of the target (n,)"""
    device, parts = scout.out.weight.device, list[NDArray[np.float32]]()
    for rows in chunks(len(points)):
        x, y = (padded(torch.from_numpy(part[rows]).to(device)) for part in (points, target))
        with torch.inference_mode():
            shares = torch.softmax(scout(x), dim=1).gather(1, y[:, None])
        parts.append(shares[: rows.stop - rows.start, 0].cpu().numpy())
    return np.concatenate(parts)
