"""The scout: a small network that says which ends of paths are worth a closer look.

It guesses what the surrogate pair would say of the record that the end of a path decodes to. It is a fifteenth of the
pair's size, and what it is given is decoded roughly, in single precision: a search that knows its price has only the
most promising ends decoded exactly and judged by the pair. Nothing that the scout says is ever reported.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from models.matrix import Encoded
from models.padding import chunks, padded
from models.snapping import Snapper

WORTH, SURE = 4, 2
"""So many ends go on for what they are worth at the price, and so many for their agreement at any price."""


class Scout(nn.Module):
    """Decodable points (B, D) -> the shares of votes (B, K) that the pair expects there"""

    def __init__(self, width_in: int, classes: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width_in, width), nn.Linear(width, width)
        self.out = nn.Linear(width, classes)

    def forward(self, points: Tensor) -> Tensor:
        """points (B, D) -> the logarithms of the shares, up to what all classes have in common (B, K)"""
        said: Tensor = self.out(functional.relu(self.second(functional.relu(self.first(points)))))
        return said


def shortlist(
    scout: Scout,
    snapper: Snapper,
    ends: NDArray[np.float32],
    origin: Encoded,
    target: NDArray[np.int64],
    price: NDArray[np.float64],
) -> NDArray[np.intp]:
    """The positions (n, WORTH + SURE) of the most promising of ends (n, c, D); all of them where there are no more

    origin (n, D), target (n,), price (n,). One end may be listed for both reasons.
    """
    count, each = ends.shape[:2]
    if each <= WORTH + SURE:
        return np.tile(np.arange(each), (count, 1))
    owner = np.repeat(np.arange(count), each)
    agreement, distance = _look(scout, snapper, ends.reshape(count * each, -1), origin, target, owner)
    agreement, distance = agreement.reshape(count, each), distance.reshape(count, each)
    worth = agreement - price[:, None] * distance
    best, surest = (np.argsort(-values, axis=1, kind="stable") for values in (worth, agreement))
    return np.concatenate([best[:, :WORTH], surest[:, :SURE]], axis=1)


def _look(
    scout: Scout,
    snapper: Snapper,
    points: NDArray[np.float32],
    origin: Encoded,
    target: NDArray[np.int64],
    owner: NDArray[np.intp],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """points (m, D) of the records owner (m,) of n -> the expected share of the target (m,), the way from home (m,)"""
    device, looks = scout.out.weight.device, np.empty((2, len(points)), dtype=np.float32)
    home, wanted = torch.from_numpy(origin.astype(np.float32)).to(device), torch.from_numpy(target).to(device)
    for rows in chunks(len(points)):
        x, whose = (padded(torch.from_numpy(part[rows]).to(device)) for part in (points, owner))
        with torch.inference_mode():
            snapped = snapper.snap(x)
            shares = torch.softmax(scout(snapped), dim=1).gather(1, wanted[whose][:, None])[:, 0]
            way = snapped.sub_(home.index_select(0, whose)).square_().sum(dim=1).sqrt_()
        size = rows.stop - rows.start
        looks[0, rows], looks[1, rows] = shares[:size].cpu().numpy(), way[:size].cpu().numpy()
    return looks[0], looks[1]
