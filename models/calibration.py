"""Fitting the agreement scale to the answers that were bought."""

import numpy as np
import torch

from models.lessons import Bought
from models.model import Calibration
from models.surrogate import SurrogatePair

PRIOR = 0.02
"""How strongly slope and bias are held at 1 and 0."""


def fit_calibration(pair: SurrogatePair, bought: Bought, classes: int) -> Calibration:
    """The slope and bias for which softmax(slope * log p + bias) fits the bought shares of votes best."""
    if not len(bought.points):
        return Calibration.identity(classes)
    pair.eval()
    with torch.no_grad():
        first, second = pair(bought.points)
        mean = (first.log_valid + second.log_valid).double() / 2
    shares = bought.shares.double()
    log_slope = torch.zeros((), dtype=torch.float64, device=mean.device, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, device=mean.device, requires_grad=True)
    optimizer: torch.optim.Optimizer = torch.optim.LBFGS([log_slope, bias], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        fitted = torch.log_softmax(log_slope.exp() * mean + bias, dim=1)
        loss = -(shares * fitted).sum(dim=1).mean() + PRIOR * (log_slope.square() + bias.square().sum())
        torch.autograd.backward(loss)
        return float(loss.detach())

    optimizer.step(closure)
    return Calibration(float(log_slope.detach().exp()), np.asarray(bias.detach().cpu().numpy()))
