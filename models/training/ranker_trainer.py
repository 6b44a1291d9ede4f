"""Training the scout, when everything else is trained: where paths of training records end, and what the pair says.

On wide data with little to tell apart a small network may learn nothing of use: a scout that would hide good answers
from the search is not kept.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from ..arrays import Records, Targets
from ..config import ScoutConfig
from ..model import RecourseModel
from ..networks.ranker import Scout
from ..search.candidates import decode_points, landing_points, look_at
from ..search.local_search import worth
from ..search.scoring import expected_shares
from ..space.constraints import Constraints, compile_constraints
from ..space.feasible import Allowed
from .schedule import set_rate, warm_cosine

RECORDS, CANDIDATES = 2000, 30
"""So many training records, each with so many paths and its ways to the anchors."""
BATCH, RATE = 512, 6e-3

CHECKED, PRICES = 200, (0.01, 0.1, 0.6)
"""So many records of the validation split tell what is lost by what the scout leaves out, at each of these prices."""
TOLERATED = 0.03
"""What may be lost of the best candidate's worth, in the mean at any of the prices."""

Singles = NDArray[np.float32]


def with_scout(
    model: RecourseModel, training: tuple[Records, Targets], validation: tuple[Records, Targets], seed: int
) -> RecourseModel:
    """The model with a scout that learned from the training split, if the validation split finds it of use"""
    scouted = replace(model, scout=train_scout(model, *training, seed))
    if scouted.scout is not None and lost_worth(scouted, *validation, seed) <= TOLERATED:
        return scouted
    settings = replace(model.config.scout, steps=0)
    return replace(model, scout=None, config=replace(model.config, scout=settings))


def lost_worth(model: RecourseModel, records: Records, labels: Targets, seed: int) -> float:
    """How much the best candidate that the scout lets pass is worth less than the best there is, at the worst price

    records (n, F), labels (n,): the mean over some of them
    """
    target, allowed = _draw(model, records, labels, CHECKED, np.random.default_rng(seed))
    points = landing_points(model, target, allowed, CANDIDATES, seed)
    every, lost = look_at(model, points, target, allowed, None), list[float]()
    for price in PRICES:
        prices = np.full(len(target), price)
        few = look_at(model, points, target, allowed, prices)
        best, passed = (worth(some, allowed.origin, prices).max(axis=1) for some in (every, few))
        lost.append(float((best - passed).mean()))
    return max(lost)


def train_scout(model: RecourseModel, records: Records, labels: Targets, seed: int) -> Scout | None:
    """records (n, F), labels (n,) of the training split; None where the settings want no scout"""
    settings, encoder = model.config.scout, model.encoder
    if not settings.steps:
        return None
    target, allowed = _draw(model, records, labels, RECORDS, np.random.default_rng(seed))
    ends = landing_points(model, target, allowed, CANDIDATES, seed)
    points = encoder.encode(decode_points(encoder, ends, allowed).reshape(-1, records.shape[1]))
    shares = expected_shares(model, points).astype(np.float32)
    return _fit(points.astype(np.float32), shares, settings, model.device, seed)


def _draw(
    model: RecourseModel, records: Records, labels: Targets, count: int, random: np.random.Generator
) -> tuple[Targets, Allowed]:
    """Another class (m,) and what the schema allows for each of at most `count` of records (n, F) with labels (n,)"""
    rows, classes = random.permutation(len(records))[:count], len(model.classes)
    target = (labels[rows] + random.integers(1, classes, size=len(rows))) % classes
    frozen = frozenset(model.encoder.schema.names) - model.flowing
    return target, compile_constraints(model.encoder.schema, Constraints(immutable=frozen), records[rows])


def _fit(points: Singles, shares: Singles, settings: ScoutConfig, device: torch.device, seed: int) -> Scout:
    """points (n, D), shares (n, K) -> the scout that follows them"""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scout = Scout(points.shape[1], shares.shape[1], settings.width).to(device)
    random = torch.Generator().manual_seed(seed)
    x, y = torch.from_numpy(points).to(device), torch.from_numpy(shares).to(device)
    optimizer = torch.optim.AdamW(scout.parameters(), lr=RATE, fused=True)
    for step in range(settings.steps):
        set_rate(optimizer, RATE * warm_cosine(step, settings.steps, 0.05))
        drawn = torch.randint(len(x), (BATCH,), generator=random).to(device)
        loss = functional.cross_entropy(scout(x[drawn]), y[drawn])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return scout.eval()
