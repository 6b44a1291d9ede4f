"""Everything that changes while a model is trained: `snapshot` copies it for a checkpoint, `restore` puts it back."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from ..config import Config
from ..data.json_fields import read_mapping, read_number, read_texts
from ..ensemble.meter import QueryMeter
from ..errors import ArtifactError
from ..networks.velocity import Velocity
from ..storage.config_json import config_to_json
from .checkpoint import Snapshot
from .generator_trainer import GeneratorTrainer
from .pseudo_labels import QueriedLabels
from .schedule import set_rate
from .surrogate_trainer import SurrogateTrainer

PROXY = "random.proxy"


class RunState:
    """The parts of one run. The generator joins when it is made; what it is made of is decided by `proxy_random`."""

    def __init__(
        self,
        surrogate: SurrogateTrainer,
        velocity: Velocity,
        meter: QueryMeter,
        choices: np.random.Generator,
        generated: frozenset[str],
        config: Config,
        seed: int,
    ) -> None:
        self.surrogate, self.velocity, self.meter = surrogate, velocity, meter
        self.choices, self.generated = choices, generated
        self.generator: GeneratorTrainer | None = None
        self._proxy_random: Tensor | None = None
        self._run: dict[str, object] = {"config": config_to_json(config), "seed": seed}

    def proxy_random(self, resume: Snapshot | None) -> torch.Generator:
        """The run's generator in the state in which the density proxy is drawn: a later phase needs the same proxy."""
        random = self.surrogate.random
        if resume is not None and PROXY in resume.tensors:
            random.set_state(resume.tensors[PROXY])
        self._proxy_random = random.get_state()
        return random

    def snapshot(self, phase: str, step: int) -> Snapshot:
        """Copies of all of it."""
        queried, tensors = self.surrogate.queried, {"random": self.surrogate.random.get_state()}
        tensors |= _named("pair.", self.surrogate.pair.state_dict())
        tensors |= _named("velocity.", self.velocity.state_dict())
        tensors |= _optimizer_tensors("surrogate.", self.surrogate.optimizer)
        tensors |= {f"queried.{name}": part for name, part in zip(_QUERIED, queried.parts, strict=True)}
        records, answers = self.meter.answers()
        tensors |= {"meter.records": torch.from_numpy(records), "meter.answers": torch.from_numpy(answers)}
        if (pseudo := self.surrogate.pseudo_labels) is not None:
            tensors |= {"pseudo.points": pseudo.points, "pseudo.votes": torch.from_numpy(pseudo.votes)}
        facts = {
            "run": self._run,
            "generated_features": sorted(self.generated),
            "spent": self.meter.spent,
            "rate": self.surrogate.optimizer.param_groups[0]["lr"],
            "choices": self.choices.bit_generator.state,
        }
        if self._proxy_random is not None and self.generator is not None:
            tensors[PROXY] = self._proxy_random
            tensors |= _optimizer_tensors("generator.", self.generator.optimizer)
            tensors |= {f"average.{i}": value for i, value in enumerate(self.generator.average.average)}
            facts["averaged"] = self.generator.average.count
        return Snapshot(phase, step, {name: value.detach().clone() for name, value in tensors.items()}, facts)

    def restore(self, snapshot: Snapshot) -> None:
        """Put back what `snapshot` copied; ArtifactError where it was another run."""
        if snapshot.facts.get("run") != self._run:
            raise ArtifactError("The checkpoint is of a run with other settings; start the training anew.")
        try:
            self._restore(snapshot)
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise ArtifactError(f"The checkpoint does not fit the run ({error}); start the training anew.") from error

    def _restore(self, snapshot: Snapshot) -> None:
        tensors, surrogate = snapshot.tensors, self.surrogate
        device = surrogate.data.points.device
        surrogate.pair.load_state_dict(snapshot.part("pair."))
        self.velocity.load_state_dict(snapshot.part("velocity."))
        _load_optimizer(surrogate.optimizer, snapshot.part("surrogate."))
        # The generator sets its rate at each step; a joint run leaves the surrogate's where the first phase ended.
        set_rate(surrogate.optimizer, read_number(snapshot.facts, "rate", "the checkpoint"))
        surrogate.queried = QueriedLabels(*(tensors[f"queried.{name}"].to(device) for name in _QUERIED))
        if surrogate.pseudo_labels is not None:
            points, votes = tensors["pseudo.points"].to(device), tensors["pseudo.votes"].numpy()
            surrogate.pseudo_labels.restore(points, votes, surrogate.queried)
        records, answers = tensors["meter.records"].numpy(), tensors["meter.answers"].numpy()
        self.meter.restore(records, answers, _count(snapshot.facts["spent"]))
        self.choices.bit_generator.state = dict(read_mapping(snapshot.facts["choices"], "'choices'"))
        if self.generator is not None and PROXY in tensors:
            _load_optimizer(self.generator.optimizer, snapshot.part("generator."))
            for number, average in enumerate(self.generator.average.average):
                average.copy_(tensors[f"average.{number}"])
            self.generator.average.count = _count(snapshot.facts["averaged"])
        surrogate.random.set_state(tensors["random"])


_QUERIED = ("points", "target", "mean", "shares")


def selected_features(snapshot: Snapshot) -> frozenset[str]:
    """The features that the interrupted run selected."""
    return frozenset(read_texts(snapshot.facts, "generated_features", "the checkpoint"))


def _count(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no count")
    return value


def _named(prefix: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in values.items()}


def _optimizer_tensors(prefix: str, optimizer: Optimizer) -> dict[str, Tensor]:
    """The moments of each parameter."""
    states = optimizer.state_dict()["state"]
    return {f"{prefix}{number}.{name}": value for number, state in states.items() for name, value in state.items()}


def _load_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    states: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, _, key = name.partition(".")
        states.setdefault(int(number), {})[key] = value.clone()
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
