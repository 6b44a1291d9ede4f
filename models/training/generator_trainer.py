"""Training the generator against the surrogate, with random costs, masks and boxes in its context."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..arrays import Records
from ..config import Config
from ..networks.density import Score, trust_threshold
from ..networks.losses import generator_loss
from ..networks.ode import Path, divergence_named, solve
from ..networks.surrogate import SurrogatePair
from ..networks.velocity import Request, Velocity
from ..space.codings import Lines, Simplices
from ..space.constraints import Constraints, compile_constraints, encoded_bounds
from ..space.encoding import Encoder
from ..space.snapping import Snapper
from .checkpoint import Steps, all_steps
from .schedule import MovingAverage, Report, set_rate, warm_cosine
from .surrogate_trainer import SurrogateTrainer, TrainingData


@dataclass(frozen=True)
class Boxes:
    """What the schema lets each training record become: lower, upper (n, D), movable (n, D); owner (D,) features.

    along   (D,) the columns of numbers and of ordered categories, which can be bounded on one side
    single  (D,) those that stand for one category each, which can be forbidden
    """

    lower: Tensor
    upper: Tensor
    movable: Tensor
    owner: Tensor
    along: Tensor
    single: Tensor


def training_boxes(encoder: Encoder, records: Records, generated: frozenset[str], device: torch.device) -> Boxes:
    """records (n, F); features outside `generated` are frozen"""
    frozen = frozenset(encoder.schema.names) - generated
    feasible = compile_constraints(encoder.schema, Constraints(immutable=frozen), records)
    box = encoded_bounds(encoder, feasible)
    along = ~np.array([feature.is_categorical for feature in encoder.schema.features])[encoder.feature_of_column]
    single = np.zeros(encoder.width, dtype=np.bool_)
    for block in encoder.blocks:
        single[block.columns] = isinstance(block.coding, Simplices)
        if isinstance(block.coding, Lines):
            along[block.columns[block.coding.categories > 2, 0]] = True

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    movable = tensor(feasible.movable[:, encoder.feature_of_column])
    lower, upper = tensor(box.lower.astype(np.float32)), tensor(box.upper.astype(np.float32))
    return Boxes(lower, upper, movable, tensor(encoder.feature_of_column), tensor(along), tensor(single))


class GeneratorTrainer:
    """Holds the velocity field, its optimizer and its moving average; `step` does one update."""

    def __init__(
        self,
        velocity: Velocity,
        pair: SurrogatePair,
        data: TrainingData,
        boxes: Boxes,
        snapper: Snapper,
        score: Score,
        config: Config,
        random: torch.Generator,
    ) -> None:
        self.velocity, self.pair, self.data, self.boxes = velocity, pair, data, boxes
        self.snapper, self.score, self.config, self.random = snapper, score, config, random
        settings = config.generator
        self.optimizer = torch.optim.AdamW(
            velocity.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        self.average = MovingAverage(velocity, settings.ema)
        self.classes = int(data.labels.max()) + 1

    @property
    def steps(self) -> int:
        settings = self.config.generator
        if settings.epochs is None:
            return settings.steps
        return settings.epochs * math.ceil(len(self.data.points) / settings.batch)

    def train(self, surrogate: SurrogateTrainer, report: Report, steps: Steps = all_steps) -> None:
        """All steps; a joint run also refines the surrogate before each of them (paper, Algorithm 1)."""
        settings = self.config.generator
        for step in steps("generator", self.steps):
            set_rate(
                self.optimizer,
                settings.learning_rate * warm_cosine(step, self.steps, settings.warmup, settings.final_rate),
            )
            if settings.joint:
                surrogate.pair.train()
                surrogate.step()
            loss = self.step()
            if step % 20 == 0 or step + 1 == self.steps:
                report("generator", step + 1, self.steps, float(loss))
        self.average.apply()

    def step(self) -> Tensor:
        """One update of the velocity field; returns the loss ()"""
        self.pair.eval()
        request = self.draw_request(self.config.generator.batch)
        path = self.run(request)
        landed = self.snapper.through(path.end)
        landed = torch.where(request.movable, landed, request.point)
        threshold = trust_threshold(self.config.noise)
        loss = generator_loss(self.pair, request, path, landed, self.score, threshold, self.config.loss).total.mean()
        self.optimizer.zero_grad()
        with divergence_named():
            torch.autograd.backward(loss, inputs=list(self.velocity.parameters()))
        torch.nn.utils.clip_grad_norm_(self.velocity.parameters(), self.config.generator.clip)
        self.optimizer.step()
        self.average.update()
        return loss.detach()

    def run(self, request: Request) -> Path:
        """Solve from perturbed starts."""
        spread = self.config.generator.perturbation
        noise = torch.randn(request.point.shape, generator=self.random, device=self.random.device)
        return solve(self.velocity, request, request.point + spread * noise, self.config.flow)

    def draw_request(self, count: int) -> Request:
        """`count` training records with a random other class as target, a random cost and random constraints"""
        device = self.random.device
        rows = torch.randint(len(self.data.points), (count,), generator=self.random, device=device)
        shift = torch.randint(1, self.classes, (count,), generator=self.random, device=device)
        target = (self.data.labels[rows] + shift) % self.classes
        low, high = math.log(self.config.loss.cost_low), math.log(self.config.loss.cost_high)
        log_cost = low + (high - low) * self._uniform(count)
        request = Request(
            point=self.data.points[rows],
            target=target,
            log_cost=log_cost,
            movable=self.boxes.movable[rows],
            lower=self.boxes.lower[rows],
            upper=self.boxes.upper[rows],
        )
        return self._constrain(request) if self.config.generator.constrained else request

    def _constrain(self, request: Request) -> Request:
        """Freeze a random part of some requests' features, bound numbers on one side, forbid categories."""
        count, features = len(request.point), int(self.boxes.owner.max()) + 1
        settings = self.config.generator
        chosen = self._uniform(count, 1) < settings.constrained
        frozen = chosen & (self._uniform(count, features) < settings.frozen_most * self._uniform(count, 1))
        movable = request.movable & ~frozen[:, self.boxes.owner]
        bounded = chosen & (self._uniform(count, features) < settings.bounded_share)
        bounded = bounded[:, self.boxes.owner]
        numeric = bounded & self.boxes.along
        room = (self._uniform(count, features) - 0.5).clamp_min(0.0)[:, self.boxes.owner] * 2
        upward = (self._uniform(count, features) < 0.5)[:, self.boxes.owner]
        lower = torch.where(numeric & upward, torch.maximum(request.lower, request.point - room), request.lower)
        upper = torch.where(numeric & ~upward, torch.minimum(request.upper, request.point + room), request.upper)
        if self.boxes.single.any():
            others = self.boxes.single & (request.point == 0.0)
            forbidden = bounded & others & (self._uniform(*request.point.shape) < 0.5)
            upper = upper.masked_fill(forbidden, 0.0)
        return Request(request.point, request.target, request.log_cost, movable, lower, upper)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.random, device=self.random.device)
