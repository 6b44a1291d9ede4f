"""CeFlow (Duong et al., 2023): move a record in the latent space of a normalizing flow until an MLP changes its mind.

The flow is a RealNVP on encoded points, trained by likelihood. A perturbation of the latent point starts at a share of
the way between the mean latents of the two classes and is then optimised against the MLP; of all points on the way that
the MLP accepts after decoding, the nearest is the answer.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.rivals.real_nvp import FlowTraining, RealNvp, train_flow
from benchmarks.rivals.relu import ReluConfig, predict_classes, train_relu
from benchmarks.rivals.rival import NO_QUERIES, Problem, Queries
from models.arrays import Encoded, Records, Targets
from models.space.encoding import cost


@dataclass(frozen=True, slots=True)
class CeFlowConfig:
    """`shares` of the way between the classes where the search starts (the paper's alpha), and how it goes on."""

    flow: FlowTraining = field(default_factory=FlowTraining)
    relu: ReluConfig = field(default_factory=ReluConfig)
    shares: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8)
    steps: int = 60
    rate: float = 0.05
    distance: float = 0.1


class CeFlow:
    """A latent search through a normalizing flow."""

    def __init__(self, config: CeFlowConfig | None = None) -> None:
        self.config = config or CeFlowConfig()

    @property
    def name(self) -> str:
        return "ceflow"

    @property
    def queries(self) -> Queries:
        return NO_QUERIES

    @property
    def note(self) -> str:
        return "white box: an MLP trained on the data stands for the ensemble"

    def fit(self, problem: Problem) -> None:
        self._encoder, classes = problem.encoder, len(problem.encoder.schema.classes)
        points, labels = problem.encoder.encode(problem.training.records), problem.training.labels
        self._mlp: nn.Module = train_relu(points, labels, classes, self.config.relu, problem.seed)
        self._flow: RealNvp = train_flow(points, self.config.flow, problem.seed)
        with torch.inference_mode():
            latent, _ = self._flow(_tensor(points))
        self._centres = torch.stack([latent[torch.from_numpy(labels == each)].mean(dim=0) for each in range(classes)])

    def explain(self, records: Records, target: Targets) -> Records:
        points = self._encoder.encode(records)
        nearest = _Nearest(records, points, target)
        own = torch.from_numpy(predict_classes(self._mlp, points))
        wanted = torch.from_numpy(target)
        with torch.no_grad():
            latent, _ = self._flow(_tensor(points))
        direction = self._centres[wanted] - self._centres[own]
        for share in self.config.shares:
            self._search(latent, share * direction, wanted, nearest)
        return nearest.answers

    def surrogate_classes(self, records: Records) -> Targets:
        """What the MLP says of records (n, F) -> (n,)"""
        return predict_classes(self._mlp, self._encoder.encode(records))

    def _search(self, latent: Tensor, start: Tensor, target: Tensor, nearest: "_Nearest") -> None:
        """Optimise from one start (n, D); whatever the MLP accepts on the way is offered to `nearest`"""
        step = start.clone().requires_grad_(True)
        optimizer = torch.optim.Adam([step], lr=self.config.rate)
        origin = _tensor(nearest.points)
        for _ in range(self.config.steps):
            moved = self._flow.inverse(latent + step)
            self._offer(moved.detach().double().numpy(), nearest)
            valid = nn.functional.cross_entropy(self._mlp(moved), target, reduction="sum")
            loss = valid + self.config.distance * (moved - origin).square().sum()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()

    def _offer(self, moved: Encoded, nearest: "_Nearest") -> None:
        """moved (n, D) as the flow left it: the decoded records are what counts"""
        decoded = self._encoder.decode(np.clip(np.nan_to_num(moved), -1e6, 1e6), origin=nearest.records)
        landed = self._encoder.encode(decoded)
        nearest.take(decoded, cost(landed, nearest.points), predict_classes(self._mlp, landed) == nearest.target)


class _Nearest:
    """The nearest accepted answer (n, F) to each record so far, the record itself before there is one."""

    def __init__(self, records: Records, points: Encoded, target: Targets) -> None:
        self.records, self.points, self.target = records, points, target
        self.answers, self.cost = records.copy(), np.full(len(records), np.inf)

    def take(self, decoded: Records, paid: NDArray[np.float64], accepted: NDArray[np.bool_]) -> None:
        nearer = accepted & (paid < self.cost)
        self.answers[nearer], self.cost[nearer] = decoded[nearer], paid[nearer]


def _tensor(points: Encoded) -> Tensor:
    return torch.from_numpy(points.astype(np.float32))
