"""One data set and seed, made ready: what was trained is shared by all experiments through the cache on disk."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch

from benchmarks.quality_cache import TrainingCache
from benchmarks.quality_run import Places, config_for
from benchmarks.quality_store import Job
from models.config import Config
from models.datasets import load
from models.encoding import Encoder
from models.ensemble.local import LocalEnsemble
from models.ensemble.recipes import MEMBER_NAMES, Mode
from models.evaluation import BUDGET_SHARE, Cases, choose_cases
from models.model import RecourseModel
from models.outliers import OutlierDetectors, fit_detectors
from models.published import PUBLISHED
from models.search import SearchConfig
from models.study import Study, make_study


@dataclass(frozen=True, slots=True)
class Settings:
    """How thorough a run is. `slow_records` go to methods that take seconds a record; `base` replaces our preset."""

    quick: bool = False
    records: int = 100
    slow_records: int = 30
    ensemble: Mode = "quick"
    members: tuple[str, ...] = MEMBER_NAMES
    base: Config | None = None


def quick_settings() -> Settings:
    """Few records, and a training that is a quarter as long"""
    return Settings(quick=True, records=30, slow_records=6)


class Bench:
    """Everything that an experiment needs of a data set and a seed, made when it is first asked for."""

    def __init__(self, dataset: str, seed: int, settings: Settings, places: Places) -> None:
        torch.set_num_threads(1)
        self.dataset, self.seed, self.settings, self._places = dataset, seed, settings, places
        self._job = Job(dataset, seed, settings.ensemble, settings.records)
        self._cache = TrainingCache(places.cache, settings.members)
        self._models: dict[Config, tuple[RecourseModel, float]] = {}

    @cached_property
    def study(self) -> Study:
        return make_study(load(self.dataset, self._places.data, seed=0), self.seed)

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
        return fit_detectors(self.encoder.encode(self.study.training.records), self.seed)

    @property
    def config(self) -> Config:
        """Our preset for the data set, cut short in a quick run"""
        if self.settings.base is not None:
            return self.settings.base
        config = config_for(self.dataset)
        return shortened(config) if self.settings.quick else config

    def model(self, config: Config | None = None) -> tuple[RecourseModel, float]:
        """A model with this configuration, ours if none is given, and the seconds that its training took"""
        config = config or self.config
        if config not in self._models:
            self._models[config] = self._cache.model(self._job, self.study, self.ensemble, config)
        return self._models[config]

    def search(self, model: RecourseModel, budget: float | None = None) -> SearchConfig:
        """Search without a query, the dial at the mean cost `budget`, by default that of the paper's table.

        The validation split sets the dial, without a query; where there is no budget, the dial stays alone.
        """
        published = PUBLISHED.get(self.dataset)
        wanted = budget if budget is not None else None if published is None else published.cost
        if wanted is None:
            return SearchConfig(seed=self.seed)
        return SearchConfig(price=model.price_for_cost(BUDGET_SHARE * wanted), floor=0.0, seed=self.seed)


def shortened(config: Config) -> Config:
    """The same losses and the same queries, a quarter of the steps"""
    return replace(
        config,
        surrogate=replace(config.surrogate, steps=config.surrogate.steps // 4),
        generator=replace(config.generator, steps=config.generator.steps // 4),
        distill=replace(config.distill, surrogate_steps=30, generator_steps=6),
    )
