"""Trained ensembles and models of earlier runs, under a name that says what they were trained from."""

import ast
import hashlib
import json
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec, resolve_name
from pathlib import Path
from time import process_time

from benchmarks.quality.summary import Job
from benchmarks.store import write_whole
from models.config import Config
from models.datasets.dataset import Labelled, Splits
from models.ensemble.local import LocalEnsemble, load_ensemble, save_ensemble, train_local_ensemble
from models.ensemble.recipes import MEMBER_NAMES, SHORTLISTS
from models.model import RecourseModel
from models.storage.artifact import load_model, save_model
from models.storage.config_json import config_to_json
from models.storage.sealed import check_seal, write_sealed
from models.training.train import train

TRAINING = "models.training.train"
"""The module whose source, with all that it imports, decides what a trained model is."""


class TrainingCache:
    """Ensembles by data, seed and recipes; models by that, the configuration and the source of the training.

    An ensemble outlives a change of its members' source: it is the same lender for every version of the method, and a
    tuned one takes hours. Empty the folder to train it again.
    """

    def __init__(self, folder: Path, members: Sequence[str] = MEMBER_NAMES) -> None:
        self.folder, self.members = folder, members

    def ensemble(self, job: Job, study: Splits) -> LocalEnsemble:
        """The ensemble of the run, trained unless it is there."""
        place = self.folder / f"ensemble-{job.dataset}-{job.seed}-{self._ensemble_key(job, study)}"
        if place.exists():
            check_seal(place)
            return load_ensemble(place)
        training = study.training
        trained = train_local_ensemble(
            study.encoder, training.records, training.labels, job.ensemble, self.members, job.seed
        )
        write_sealed(place, partial(save_ensemble, trained))
        return trained

    def model(self, job: Job, study: Splits, ensemble: LocalEnsemble, config: Config) -> tuple[RecourseModel, float]:
        """The model of the run, trained unless it is there, and the processor seconds that its training took."""
        place = self.folder / f"model-{job.dataset}-{job.seed}-{self._model_key(job, study, config)}"
        seconds_file = place.with_name(f"{place.name}.seconds")
        if place.exists():
            return load_model(place), float(seconds_file.read_text())
        started = process_time()
        model = train(study, ensemble, config, seed=job.seed)
        seconds = process_time() - started
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(seconds_file, repr(seconds))
        save_model(model, place)
        return model, seconds

    def _ensemble_key(self, job: Job, study: Splits) -> str:
        recipes = repr([SHORTLISTS[job.ensemble][name] for name in self.members])
        return _digest(json.dumps(study.encoder.to_json()), _content(study.training), str(job.seed), recipes)

    def _model_key(self, job: Job, study: Splits, config: Config) -> str:
        settings = json.dumps(config_to_json(config))
        return _digest(self._ensemble_key(job, study), _content(study.validation), settings, source_digest(TRAINING))


def source_digest(module: str) -> str:
    """What the module and all that it imports from `models` say; comments and layout do not count."""
    seen: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        spec = find_spec(name)
        if name in seen or spec is None or spec.origin is None:
            continue
        tree = ast.parse(Path(spec.origin).read_text())
        seen[name] = ast.dump(tree)
        package = name if spec.submodule_search_locations else name.rpartition(".")[0]
        waiting += _imports_from_models(tree, package)
    return _digest(*(f"{name} {seen[name]}" for name in sorted(seen)))


def _imports_from_models(tree: ast.Module, package: str) -> list[str]:
    """The modules that a file of `package` imports, by their full names."""
    named = [
        resolve_name("." * node.level + (node.module or ""), package)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    ]
    return [name for name in named if name.split(".")[0] == "models"]


def _content(part: Labelled) -> str:
    return hashlib.sha256(part.records.tobytes() + part.labels.tobytes()).hexdigest()


def _digest(*texts: str) -> str:
    """A short name for the texts; where one ends and the next begins counts."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]
