"""The candidate ranker: a small network that says which ends of paths are worth decoding and scoring.

It guesses what the surrogate pair would say of the record that the end of a path decodes to. It is a fifteenth of the
pair's size, and its input is decoded roughly, in single precision: a search at one cost weight has only the most
promising ends decoded exactly and scored by the pair. Nothing that the ranker says is ever reported.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ..arrays import Encoded
from ..config import RankerConfig
from ..space.snapping import Snapper
from .batching import groups


class CandidateRanker(nn.Module):
    """Decodable points (B, D) -> the shares of votes (B, K) that the pair expects there"""

    def __init__(self, width_in: int, classes: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width_in, width), nn.Linear(width, width)
        self.out = nn.Linear(width, classes)

    def forward(self, points: Tensor) -> Tensor:
        """points (B, D) -> the logarithms of the shares, up to what all classes have in common (B, K)"""
        hidden = functional.relu(self.first(points), inplace=True)
        said: Tensor = self.out(functional.relu(self.second(hidden), inplace=True))
        return said


def top_candidates(
    ranker: CandidateRanker,
    snapper: Snapper,
    ends: NDArray[np.float32],
    origin: Encoded,
    target: NDArray[np.int64],
    cost_weight: NDArray[np.float64],
    config: RankerConfig,
) -> NDArray[np.intp]:
    """The positions (n, by_objective + by_agreement) of the most promising of ends (n, c, D), or all if there are fewer

    origin (n, D), target (n,), cost_weight (n,). One end may be listed for both reasons.
    """
    count, each = ends.shape[:2]
    if each <= config.by_objective + config.by_agreement:
        return np.tile(np.arange(each), (count, 1))
    agreement, distance = _rank(ranker, snapper, ends, origin, target)
    objective = agreement - cost_weight[:, None] * distance
    best, surest = (np.argsort(-values, axis=1, kind="stable") for values in (objective, agreement))
    return np.concatenate([best[:, : config.by_objective], surest[:, : config.by_agreement]], axis=1)


def _rank(
    ranker: CandidateRanker, snapper: Snapper, ends: NDArray[np.float32], origin: Encoded, target: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """ends (n, c, D) -> the expected share of the target and the distance from the origin, both (n, c)"""
    device, ranks = ranker.out.weight.device, np.empty((2, *ends.shape[:2]), dtype=np.float32)
    start, wanted = torch.from_numpy(origin.astype(np.float32)).to(device), torch.from_numpy(target).to(device)
    for rows, filled in groups(len(ends), ends.shape[1]):
        some = torch.from_numpy(ends[rows]).to(device)
        if filled > ends.shape[1]:
            some = torch.cat([some, some[:, -1:].expand(-1, filled - ends.shape[1], -1)], dim=1)
        with torch.inference_mode():
            snapped = snapper.snap(some.flatten(0, 1))
            # Classes first: arithmetic along a long last axis is quick.
            said = ranker(snapped).T.contiguous().softmax(dim=0).reshape(-1, *some.shape[:2])
            shares = said.gather(0, wanted[rows, None].expand(some.shape[:2])[None])[0]
            way = snapped.view_as(some).sub_(start[rows, None]).square_().sum(dim=2).sqrt_()
        for rank, values in zip(ranks, (shares, way), strict=True):
            rank[rows] = values[:, : ends.shape[1]].cpu().numpy()
    return ranks[0], ranks[1]
