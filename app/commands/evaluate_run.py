"""The work of `recourse evaluate`: METHOD.md, section 8, once a seed."""

from dataclasses import dataclass

from rich.console import Console

from app.commands.choices import Tuning
from app.commands.evaluate import EvaluateOrder
from app.commands.progress import Bars
from app.commands.train_config import choose_members, make_config
from app.commands.train_run import read_data
from models.datasets.dataset import split_dataset
from models.device import find_device
from models.ensemble.recipes import Mode
from models.evaluation.evaluation import PUBLISHED, EvaluationConfig, Published, Quality, evaluate
from models.training.pipeline import check_top_features, fit


@dataclass(frozen=True, slots=True)
class Run:
    """One seed: the three methods."""

    seed: int
    qualities: tuple[Quality, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """All seeds, and what the paper reports of this data set, if it does."""

    order: EvaluateOrder
    name: str
    published: Published | None
    runs: tuple[Run, ...]


def run_evaluation(order: EvaluateOrder, console: Console) -> Measured:
    """The dial of the surrogate's search is set to the paper's cost, where the paper has this data set."""
    members, (config, limit) = choose_members(order.settings.members), make_config(order.settings)
    find_device(config.device)
    dataset = read_data(order.data, order.label, order.schema)
    published = PUBLISHED.get(dataset.name)
    budget = None if published is None else published.cost
    runs = []
    for seed in order.seeds:
        study = split_dataset(dataset, seed)
        check_top_features(config, study)
        console.print(f"{dataset.name}, seed {seed}")
        measure = EvaluationConfig(order.records, order.records, order.max_queries, budget, prices=(), seed=seed)
        with Bars(console) as bars:
            mode: Mode = "quick" if order.settings.tuning is Tuning.QUICK else "tuned"
            fitted = fit(study, members, mode, config, limit, seed, bars.ensemble, bars.report)
            bars.wait("measuring")
            parts = (study.training, study.validation, study.test)
            found = evaluate(fitted.model, fitted.ensemble, *parts, measure, train_seconds=fitted.train_seconds)
        runs.append(Run(seed, found.qualities))
    return Measured(order, dataset.name, published, tuple(runs))
