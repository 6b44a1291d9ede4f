"""What rocelib wants to be given: a ReLU network of one output, its data in a frame, and a task that holds both."""

import numpy as np
import older_gurobipy  # noqa: F401
import pandas as pd
import torch
from lines import Task
from rocelib.datasets.DatasetLoader import DatasetLoader
from rocelib.evaluations.robustness_evaluations.MC_Robustness_Implementations.DeltaRobustnessEvaluator import (
    DeltaRobustnessEvaluator,
)
from rocelib.models.imported_models.PytorchModel import PytorchModel
from rocelib.tasks.Task import Task as RocelibTask

LABEL = "target"


class Rows(DatasetLoader):
    """Records that the lender accepts, all labelled 1."""

    def __init__(self, task: Task) -> None:
        super().__init__(LABEL, neg_value=0)
        self.data = frame_of(task.training, task.names).assign(**{LABEL: 1})

    @property
    def X(self) -> pd.DataFrame:
        return self.data.drop(columns=[LABEL])

    @property
    def y(self) -> pd.Series:
        return self.data[LABEL]


class OneNetwork(RocelibTask):
    """The network and its data; what it would generate and evaluate for all methods at once is not used here."""

    def generate(self, methods: list[str]) -> dict:
        raise NotImplementedError

    def evaluate(self, methods: list[str], evaluations: list[str]) -> dict:
        raise NotImplementedError

    def get_random_positive_instance(self, neg_value: object, column_name: str = LABEL) -> pd.Series:
        raise NotImplementedError


class Remembering(DeltaRobustnessEvaluator):
    """Whether a record is robust does not depend on who asks, and a mixed-integer program is dear: once is enough."""

    def __init__(self, task: RocelibTask) -> None:
        super().__init__(task)
        self.known: dict[object, bool] = vars(task).setdefault("known", {})

    def evaluate_single_instance(self, instance: pd.Series, *args: object, **settings: object) -> bool:
        if instance.name not in self.known:
            self.known[instance.name] = bool(super().evaluate_single_instance(instance, *args, **settings))
        return self.known[instance.name]


def rocelib_task(task: Task) -> OneNetwork:
    torch.set_num_threads(1)
    parts: list[torch.nn.Module] = []
    for weights, biases in task.layers:
        layer = torch.nn.Linear(len(weights[0]), len(biases))
        layer.weight.data, layer.bias.data = torch.tensor(weights), torch.tensor(biases)
        parts += [layer, torch.nn.ReLU()]
    network = torch.nn.Sequential(*parts[:-1], torch.nn.Sigmoid())
    return OneNetwork(PytorchModel.from_model(network), Rows(task))


def frame_of(rows: list[list[float]], names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(np.array(rows, dtype=float).reshape(len(rows), len(names)), columns=names)
