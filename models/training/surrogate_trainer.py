"""Training the surrogate: labelled data and noise for the density, pseudo-labels and queried labels for the votes.

The (K+1)-way NCE classifier of docs/METHOD.md, section 2 (paper, "NCE-based Conditional Density Estimation"), and the
calibration of its votes (Platt scaling) on the labels that were queried.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..config import Config
from ..model import Calibration
from ..networks.density import draw_noise
from ..networks.losses import distillation_loss, nce_loss, vote_loss
from ..networks.surrogate import SurrogatePair
from .checkpoint import Steps, all_steps
from .pseudo_labels import PseudoLabels, QueriedLabels
from .schedule import Report, set_rate, warm_cosine


@dataclass(frozen=True)
class TrainingData:
    """The training split in encoded space: points (n, D), labels (n,), and the noise bound C."""

    points: Tensor
    labels: Tensor
    bound: float


class SurrogateTrainer:
    """Holds the networks, their optimizer and the labels; `step` does one update of both networks."""

    def __init__(self, pair: SurrogatePair, data: TrainingData, config: Config, random: torch.Generator) -> None:
        self.pair, self.data, self.config, self.random = pair, data, config, random
        settings = config.surrogate
        self.optimizer = torch.optim.AdamW(
            pair.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        classes = int(data.labels.max()) + 1
        self.queried = QueriedLabels.empty(data.points.shape[1], classes, data.points.device)
        self.pseudo_labels: PseudoLabels | None = None

    def pretrain(self, report: Report, steps: Steps = all_steps) -> None:
        """The configured number of steps, with warm-up and cosine decay."""
        settings, count = self.config.surrogate, self.config.surrogate.steps
        for step in steps("surrogate", count):
            self.pair.train()
            share = warm_cosine(step, count, settings.warmup, settings.final_rate)
            set_rate(self.optimizer, settings.learning_rate * share)
            loss = self.step()
            if step % 50 == 0 or step + 1 == count:
                report("surrogate", step + 1, count, float(loss))

    def step(self) -> Tensor:
        """One update; returns the loss ()

        Data, noise, pseudo-labels and queried labels pass the networks together: one large pass takes less time than
        four small ones.
        """
        points, pseudo, settings = self.data.points, self.pseudo_labels, self.config.noise
        drawn = self._draw(len(points), self.config.surrogate.batch)
        noise_count = max(8, round(len(drawn) * settings.ratio))
        noise = draw_noise(noise_count, points.shape[1], self.data.bound, self.random)
        labelled = pseudo.draw(self.config.surrogate.batch, self.random) if pseudo is not None else drawn[:0]
        queried = (
            self._draw(len(self.queried.points), self.config.surrogate.queried_batch)
            if len(self.queried.points)
            else drawn[:0]
        )
        pseudo_points = points[:0] if pseudo is None else pseudo.points[labelled]
        parts = [points[drawn], noise, pseudo_points, self.queried.points[queried]]
        outputs, sizes, loss = self.pair(torch.cat(parts)), [len(part) for part in parts], points.new_zeros(())
        for reading in outputs:
            logits, noise_logits, _, _ = reading.logits.split(sizes)
            own_votes, _, pseudo_votes, queried_votes = reading.log_class_share.split(sizes)
            loss = loss + nce_loss(logits, self.data.labels[drawn], noise_logits, settings.ratio, settings.weight)
            if pseudo is not None:
                loss = loss + vote_loss(pseudo_votes, pseudo.soft_labels[labelled])
            elif self.config.surrogate.votes:
                # Without a jury the labels are the only votes, until some are queried.
                loss = loss + vote_loss(own_votes, functional.one_hot(self.data.labels[drawn], own_votes.shape[1]))
            if len(queried):
                loss = loss + self._queried_loss(queried_votes, queried)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.detach()

    def _queried_loss(self, log_class_share: Tensor, drawn: Tensor) -> Tensor:
        if self.config.surrogate.votes:
            return vote_loss(log_class_share, self.queried.shares[drawn])
        return distillation_loss(log_class_share, self.queried.target[drawn], self.queried.mean[drawn])

    def _draw(self, size: int, count: int) -> Tensor:
        return torch.randint(size, (count,), generator=self.random, device=self.random.device)


def fit_calibration(pair: SurrogatePair, queried: QueriedLabels, classes: int, prior: float = 0.02) -> Calibration:
    """The slope and bias for which softmax(slope * log p + bias) best fits the queried shares of votes (Platt scaling).

    `prior` holds them at 1 and 0, and the slope stays above 0; without queried labels they are 1 and 0.
    """
    if not len(queried.points):
        return Calibration.identity(classes)
    pair.eval()
    with torch.no_grad():
        first, second = pair(queried.points)
        mean = (first.log_class_share + second.log_class_share).double() / 2
    shares = queried.shares.double()
    log_slope = torch.zeros((), dtype=torch.float64, device=mean.device, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, device=mean.device, requires_grad=True)
    optimizer: torch.optim.Optimizer = torch.optim.LBFGS([log_slope, bias], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        fitted = torch.log_softmax(log_slope.exp() * mean + bias, dim=1)
        loss = -(shares * fitted).sum(dim=1).mean() + prior * (log_slope.square() + bias.square().sum())
        torch.autograd.backward(loss)
        return float(loss.detach())

    optimizer.step(closure)
    return Calibration(float(log_slope.detach().exp()), np.asarray(bias.detach().cpu().numpy()))
