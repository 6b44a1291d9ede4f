"""Training the ranker, when everything else is trained: where paths of training records end, and what the pair says.

On wide data with little to tell apart a small network may learn nothing of use: a ranker that would hide good answers
from the search is not kept.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from ..arrays import Targets
from ..config import RankerConfig
from ..datasets.dataset import Labelled
from ..model import RecourseModel
from ..networks.ranker import CandidateRanker
from ..search.candidates import decode_points, endpoints, score_endpoints
from ..search.local_search import objective
from ..search.scoring import expected_shares
from ..space.feasible import FeasibleSet
from .schedule import set_rate, warm_cosine

Singles = NDArray[np.float32]


def with_ranker(model: RecourseModel, training: Labelled, validation: Labelled, seed: int) -> RecourseModel:
    """The model with a ranker that learned from the training split, if the validation split finds it of use"""
    settings = model.config.ranker
    ranked_model = replace(model, ranker=train_ranker(model, training, seed))
    if ranked_model.ranker is not None and ranking_regret(ranked_model, validation, seed) <= settings.most_regret:
        return ranked_model
    return replace(model, ranker=None, config=replace(model.config, ranker=replace(settings, steps=0)))


def ranking_regret(model: RecourseModel, split: Labelled, seed: int) -> float:
    """What the objective of the best candidate loses by the ranking, at the worst of the configured cost weights

    The mean over some records of the split
    """
    settings = model.config.ranker
    target, feasible = _draw(model, split, settings.checked, np.random.default_rng(seed))
    points = endpoints(model, target, feasible, settings.candidates, seed)
    every, lost = score_endpoints(model, points, target, feasible, None), list[float]()
    penalty = model.config.search.local.change_penalty
    for cost_weight in settings.cost_weights:
        cost_weights = np.full(len(target), cost_weight)
        few = score_endpoints(model, points, target, feasible, cost_weights)
        best, passed = (objective(some, feasible, cost_weights, penalty).max(axis=1) for some in (every, few))
        lost.append(float((best - passed).mean()))
    return max(lost)


def train_ranker(model: RecourseModel, training: Labelled, seed: int) -> CandidateRanker | None:
    """The ranker that learned from the training split; None where the settings want no ranker"""
    settings, encoder = model.config.ranker, model.encoder
    if not settings.steps:
        return None
    target, feasible = _draw(model, training, settings.records, np.random.default_rng(seed))
    ends = endpoints(model, target, feasible, settings.candidates, seed)
    decoded = decode_points(encoder, ends, feasible)
    points = encoder.encode(decoded.reshape(-1, decoded.shape[2]))
    shares = expected_shares(model, points).astype(np.float32)
    return _fit(points.astype(np.float32), shares, settings, model.device, seed)


def _draw(
    model: RecourseModel, split: Labelled, count: int, random: np.random.Generator
) -> tuple[Targets, FeasibleSet]:
    """Another class (m,) and what the schema allows for each of at most `count` records of the split"""
    rows, classes = random.permutation(len(split))[:count], len(model.classes)
    target = (split.labels[rows] + random.integers(1, classes, size=len(rows))) % classes
    return target, model.feasible(split.records[rows])


def _fit(points: Singles, shares: Singles, settings: RankerConfig, device: torch.device, seed: int) -> CandidateRanker:
    """points (n, D), shares (n, K) -> the ranker that follows them"""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        ranker = CandidateRanker(points.shape[1], shares.shape[1], settings.width).to(device)
    random = torch.Generator().manual_seed(seed)
    x, y = torch.from_numpy(points).to(device), torch.from_numpy(shares).to(device)
    optimizer = torch.optim.AdamW(ranker.parameters(), lr=settings.learning_rate, fused=True)
    for step in range(settings.steps):
        share = warm_cosine(step, settings.steps, settings.warmup, settings.final_rate)
        set_rate(optimizer, settings.learning_rate * share)
        drawn = torch.randint(len(x), (settings.batch,), generator=random).to(device)
        loss = functional.cross_entropy(ranker(x[drawn]), y[drawn])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return ranker.eval()
