"""Training the scout, when everything else is trained: where paths of training records end, and what the pair says."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from models.candidates import decode_points, landing_points
from models.config import ScoutConfig
from models.constraints import Constraints, compile_constraints
from models.matrix import Records
from models.model import RecourseModel
from models.schedule import set_rate, warm_cosine
from models.scoring import Targets, device_of, expected_shares
from models.scout import Scout

RECORDS, CANDIDATES = 2000, 30
"""So many training records, each with so many paths and its ways to the anchors."""
BATCH, RATE = 512, 6e-3

Singles = NDArray[np.float32]


def train_scout(model: RecourseModel, records: Records, labels: Targets, seed: int) -> Scout | None:
    """records (n, F), labels (n,) of the training split; None where the settings want no scout"""
    settings, encoder, classes = model.config.scout, model.encoder, len(model.classes)
    if not settings.steps:
        return None
    random = np.random.default_rng(seed)
    rows = random.permutation(len(records))[:RECORDS]
    target = (labels[rows] + random.integers(1, classes, size=len(rows))) % classes
    frozen = frozenset(encoder.schema.names) - model.flowing
    allowed = compile_constraints(encoder.schema, Constraints(immutable=frozen), records[rows])
    ends = landing_points(model, target, allowed, CANDIDATES, seed)
    points = encoder.encode(decode_points(encoder, ends, allowed).reshape(-1, records.shape[1]))
    shares = expected_shares(model, points).astype(np.float32)
    return _fit(points.astype(np.float32), shares, settings, device_of(model), seed)


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
