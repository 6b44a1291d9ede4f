"""Training the surrogate: labelled data and noise for the density, lessons for the votes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.config import Config
from models.density import draw_noise
from models.lessons import Bought, FreeLessons
from models.losses import distillation_loss, nce_loss, share_loss
from models.pace import Steps, straight
from models.reporting import Report
from models.schedule import set_rate, warm_cosine
from models.surrogate import SurrogatePair

LESSON_BATCH = 256


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
        self.bought = Bought.nothing(data.points.shape[1], classes, data.points.device)
        self.free: FreeLessons | None = None

    def pretrain(self, report: Report, steps: Steps = straight) -> None:
        """The configured number of steps, with warm-up and cosine decay."""
        settings = self.config.surrogate
        self.pair.train()
        for step in steps("surrogate", settings.steps):
            set_rate(self.optimizer, settings.learning_rate * warm_cosine(step, settings.steps, 0.05))
            loss = self.step()
            if step % 50 == 0 or step + 1 == settings.steps:
                report("surrogate", step + 1, settings.steps, float(loss))

    def step(self) -> Tensor:
        """One update; returns the loss ()"""
        points, labels = self.data.points, self.data.labels
        drawn = self._draw(len(points), self.config.surrogate.batch)
        noise_count = max(8, round(len(drawn) * self.config.noise.ratio))
        noise = draw_noise(noise_count, points.shape[1], self.data.bound, self.random)
        free = None if self.free is None else self._draw(len(self.free.points), self.config.surrogate.batch)
        bought = None if not len(self.bought.points) else self._draw(len(self.bought.points), LESSON_BATCH)
        readings, noise_readings = self.pair(points[drawn]), self.pair(noise)
        free_readings = None if self.free is None or free is None else self.pair(self.free.points[free])
        bought_readings = None if bought is None else self.pair(self.bought.points[bought])
        settings, loss = self.config.noise, points.new_zeros(())
        for network in (0, 1):
            logits, noise_logits = readings[network].logits, noise_readings[network].logits
            loss = loss + nce_loss(logits, labels[drawn], noise_logits, settings.ratio, settings.weight)
            if self.free is not None and free_readings is not None:
                loss = loss + share_loss(free_readings[network].log_valid, self.free.shares[free])
            if bought is not None and bought_readings is not None:
                loss = loss + self._bought_loss(bought_readings[network].log_valid, bought)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.detach()

    def _bought_loss(self, log_valid: Tensor, drawn: Tensor) -> Tensor:
        if self.config.surrogate.votes:
            return share_loss(log_valid, self.bought.shares[drawn])
        return distillation_loss(log_valid, self.bought.target[drawn], self.bought.mean[drawn])

    def _draw(self, size: int, count: int) -> Tensor:
        return torch.randint(size, (count,), generator=self.random, device=self.random.device)
