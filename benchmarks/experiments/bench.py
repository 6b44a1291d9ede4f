"""One data set and seed, made ready: what was trained is shared by all experiments through the cache on disk."""

from dataclasses import dataclass
from functools import cached_property

import torch

from benchmarks.quality.cache import TrainingCache
from benchmarks.quality.run import config_for
from benchmarks.quality.summary import Job
from benchmarks.store import Places
from models.config import Config, EvaluationConfig, SearchConfig
from models.datasets import load
from models.datasets.dataset import Splits, split_dataset
from models.ensemble.local import LocalEnsemble
from models.ensemble.recipes import MEMBER_NAMES, Mode
from models.evaluation.evaluation import PUBLISHED, Cases, OutlierDetectors, choose_cases, firm_cases, fit_detectors
from models.model import RecourseModel
from models.search.frontier import cost_weight_within
from models.space.encoding import Encoder

BUDGET_SHARE = 0.985
"""The dial is set to this share of the cost that is to be met: the test records may cost a little more."""
WEIGHT_CASES = 300


@dataclass(frozen=True, slots=True)
class Settings:
    """How thorough a run is.

    slow_records  go to methods that take seconds a record
    effort        the share of our preset's steps; `varied` where an experiment trains each of its variants
    base          replaces our preset
    """

    quick: bool = False
    records: int = 100
    slow_records: int = 30
    effort: float = 1.0
    varied: float = 0.2
    ensemble: Mode = "quick"
    members: tuple[str, ...] = MEMBER_NAMES
    base: Config | None = None


def quick_settings() -> Settings:
    """Few records, and a training that is a tenth as long"""
    return Settings(quick=True, records=30, slow_records=6, effort=0.1, varied=0.1)


class Bench:
    """Everything that an experiment needs of a data set and a seed, made when it is first asked for."""

    def __init__(self, dataset: str, seed: int, settings: Settings, places: Places) -> None:
        torch.set_num_threads(1)
        self.dataset, self.seed, self.settings, self._places = dataset, seed, settings, places
        self._job = Job(dataset, seed, settings.ensemble, settings.records)
        self._cache = TrainingCache(places.cache, settings.members)
        self._models: dict[Config, tuple[RecourseModel, float]] = {}

    @cached_property
    def study(self) -> Splits:
        return split_dataset(load(self.dataset, self._places.data, seed=0), self.seed, "circle")

    @property
    def encoder(self) -> Encoder:
        return self.study.encoder

    @cached_property
    def ensemble(self) -> LocalEnsemble:
        return self._cache.ensemble(self._job, self.study)

    @cached_property
    def cases(self) -> Cases:
        """Test records that all models classify correctly, and their targets"""
        return choose_cases(self.ensemble, self.study.test, self.settings.records, self.seed)

    @cached_property
    def detectors(self) -> OutlierDetectors:
        return fit_detectors(self.encoder.encode(self.study.training.records), EvaluationConfig(seed=self.seed))

    @property
    def config(self) -> Config:
        """Our preset for the data set, cut short in a quick run"""
        return self.settings.base or config_for(self.dataset).scaled(self.settings.effort)

    @property
    def varied_config(self) -> Config:
        """What the variants of an experiment vary: fewer steps, since each variant is trained anew"""
        return self.settings.base or config_for(self.dataset).scaled(self.settings.varied)

    def model(self, config: Config | None = None) -> tuple[RecourseModel, float]:
        """A model with this configuration, ours if none is given, and the seconds that its training took"""
        config = config or self.config
        if config not in self._models:
            self._models[config] = self._cache.model(self._job, self.study, self.ensemble, config)
        return self._models[config]

    def search(self, model: RecourseModel, budget: float | None = None) -> SearchConfig:
        """Search without a query, the dial at the mean cost `budget`, by default that of the paper's table.

        Validation records of which the surrogate expects less than one model to say the target set the dial: the test
        records are those that all models see right, and to ask which validation records those are would be queries.
        """
        published = PUBLISHED.get(self.dataset)
        wanted = budget if budget is not None else None if published is None else published.cost
        if wanted is None:
            return SearchConfig(seed=self.seed)
        cases = firm_cases(model, self.study.validation, len(self.settings.members), WEIGHT_CASES, self.seed)
        price = cost_weight_within(model, cases.records, cases.target, BUDGET_SHARE * wanted, self.seed)
        return SearchConfig(cost_weight=price, min_expected_agreement=0.0, seed=self.seed)
