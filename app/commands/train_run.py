"""The work of `recourse train`: data, ensemble, training, artifact; nothing is written before all of it is done."""

import json
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from rich.console import Console

from app.commands.choices import Tuning
from app.commands.data_run import find_data
from app.commands.files import read_overrides
from app.commands.progress import Bars
from app.commands.train import TrainOrder
from app.commands.train_config import choose_members, make_config
from models.data.columns import check_columns
from models.data.schema import override_table
from models.datasets.dataset import Dataset, Splits, split_dataset
from models.device import find_device
from models.ensemble.recipes import Mode
from models.model import RecourseModel
from models.storage.artifact import save_model
from models.training.pipeline import check_top_features, fit, member_accuracy, with_overrides


@dataclass(frozen=True, eq=False)
class Trained:
    """What there is to tell at the end."""

    order: TrainOrder
    name: str
    study: Splits
    model: RecourseModel
    accuracy: dict[str, float]
    query_limit: int
    content_hash: str
    seconds: float


def run_training(order: TrainOrder, console: Console) -> Trained:
    """Everything that can be refused is refused before the first model is trained."""
    started = perf_counter()
    members, (config, limit) = choose_members(order.settings.members), make_config(order.settings)
    find_device(config.device)
    dataset = read_data(order.data, order.label, order.schema)
    study = split_dataset(dataset, order.seed)
    check_top_features(config, study)
    with Bars(console) as bars:
        mode: Mode = "quick" if order.settings.tuning is Tuning.QUICK else "tuned"
        fitted = fit(study, members, mode, config, limit, order.seed, bars.ensemble, bars.report)
    content_hash = save_model(fitted.model, order.out, fitted.ensemble)
    accuracy = member_accuracy(fitted.ensemble, study.test)
    seconds = perf_counter() - started
    return Trained(order, dataset.name, study, fitted.model, accuracy, limit, content_hash, seconds)


def read_data(data: str, label: str | None, schema: Path | None) -> Dataset:
    """DATA of the command line with the overrides of its schema file."""
    overrides = read_overrides(schema) if schema is not None else {}
    dataset = with_overrides(find_data(data, label), label, overrides)
    _check_kinds(dataset)
    return dataset


def _check_kinds(dataset: Dataset) -> None:
    """The schema file may say of a column of numbers or dates that it is a category."""
    said = {name for name, changes in override_table(dataset.overrides).items() if "kind" in changes}

    def way_out(name: str) -> str:
        wanted = json.dumps({"features": {name: {"kind": "categorical"}}}, ensure_ascii=False)
        return f"say with --schema that it is a category: {wanted}"

    check_columns(dataset.frame, {dataset.label, *said}, way_out)
