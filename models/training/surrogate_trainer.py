"""Training the surrogate: labelled data and noise for the density, lessons for the votes.

Fitting the agreement scale to the answers that were bought.
"""

from collections.abc import Callable
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
from .checkpoint import Steps, straight
from .pseudo_labels import Bought, FreeLessons
from .schedule import Report, set_rate, warm_cosine

LESSON_BATCH = 256
PRACTISE_EVERY = 250
"""While the surrogate settles, practice is added once in so many steps."""


@dataclass(frozen=True)
class TrainingData:
    """The training split in encoded space: points (n, D), labels (n,), and the noise bound C."""

    points: Tensor
    labels: Tensor
    bound: float


class SurrogateTrainer:
    """Holds the optimizer and the lessons; `step` does one update of both networks."""

    def __init__(self, pair: SurrogatePair, data: TrainingData, config: Config, random: torch.Generator) -> None:
        self.pair, self.data, self.config, self.random = pair, data, config, random
        settings = config.surrogate
        self.optimizer = torch.optim.AdamW(
            pair.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        classes = int(data.labels.max()) + 1
        self.bought = Bought.nothing(data.points.shape[1], settings.heads or 1, classes, data.points.device)
        self.free: FreeLessons | None = None

    def pretrain(self, report: Report, steps: Steps = straight) -> None:
        """The configured number of steps, with warm-up and cosine decay."""
        settings = self.config.surrogate
        self._run("surrogate", settings.steps, settings.learning_rate, report, steps)

    def settle(self, practise: Callable[[], None], report: Report, steps: Steps = straight) -> None:
        """The last lessons, when everything is bought: what the rounds left unsteady is learned at a falling rate.

        Now and then `practise` adds what a search would choose by now.
        """
        settings = self.config.distill

        def now_and_then(step: int) -> None:
            if step % PRACTISE_EVERY == 0:
                practise()

        self._run("settle", settings.settle_steps, settings.settle_rate, report, steps, now_and_then)

    def _run(
        self,
        phase: str,
        count: int,
        rate: float,
        report: Report,
        steps: Steps,
        before: Callable[[int], None] = lambda step: None,
    ) -> None:
        for step in steps(phase, count):
            before(step)
            self.pair.train()
            set_rate(self.optimizer, rate * warm_cosine(step, count, 0.05))
            loss = self.step()
            if step % 50 == 0 or step + 1 == count:
                report(phase, step + 1, count, float(loss))

    def step(self) -> Tensor:
        """One update; returns the loss ()

        Data, noise and lessons pass the networks together: one large pass takes less time than four small ones.
        """
        points, free, settings = self.data.points, self.free, self.config.noise
        drawn = self._draw(len(points), self.config.surrogate.batch)
        noise_count = max(8, round(len(drawn) * settings.ratio))
        noise = draw_noise(noise_count, points.shape[1], self.data.bound, self.random)
        learned = free.draw(self.config.surrogate.batch, self.random) if free is not None else drawn[:0]
        bought = self._draw(len(self.bought.points), LESSON_BATCH) if len(self.bought.points) else drawn[:0]
        lessons = points[:0] if free is None else free.points[learned]
        parts = [points[drawn], noise, lessons, self.bought.points[bought]]
        outputs, sizes, loss = self.pair(torch.cat(parts)), [len(part) for part in parts], points.new_zeros(())
        for reading in outputs:
            logits, noise_logits, _, _ = reading.logits.split(sizes)
            own_votes, _, lesson_votes, bought_votes = reading.log_member_share.split(sizes)
            loss = loss + nce_loss(logits, self.data.labels[drawn], noise_logits, settings.ratio, settings.weight)
            if free is not None:
                loss = loss + vote_loss(lesson_votes, free.taught[learned])
            elif self.config.surrogate.votes:
                # Without plausible models the labels are the only votes, until some are bought.
                labels = functional.one_hot(self.data.labels[drawn], own_votes.shape[2])
                loss = loss + vote_loss(own_votes, labels[:, None].expand_as(own_votes))
            if len(bought):
                loss = loss + self._bought_loss(bought_votes, bought)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.detach()

    def _bought_loss(self, log_member_share: Tensor, drawn: Tensor) -> Tensor:
        if self.config.surrogate.votes:
            return vote_loss(log_member_share, self.bought.votes[drawn])
        return distillation_loss(log_member_share[:, 0], self.bought.target[drawn], self.bought.mean[drawn])

    def _draw(self, size: int, count: int) -> Tensor:
        return torch.randint(size, (count,), generator=self.random, device=self.random.device)


PRIOR = 0.02
"""How strongly slope and bias are held at 1 and 0."""


def fit_calibration(pair: SurrogatePair, bought: Bought, classes: int) -> Calibration:
    """The slope and bias for which softmax(slope * log p + bias) fits the bought shares of votes best."""
    if not len(bought.points):
        return Calibration.identity(classes)
    pair.eval()
    with torch.no_grad():
        first, second = pair(bought.points)
        mean = (first.log_class_share + second.log_class_share).double() / 2
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
