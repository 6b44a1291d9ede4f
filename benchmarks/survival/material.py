"""One data set and seed, made ready: the asked models, the groups of others, and the refused records of all methods."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch

from benchmarks.quality.cache import TrainingCache
from benchmarks.quality.run import config_for
from benchmarks.quality.summary import Job
from benchmarks.store import Places
from benchmarks.survival.families import all_families
from models.arrays import Records
from models.config import Config, EvaluationConfig
from models.data.frames import labels_to_codes, to_records
from models.data.infer import infer_schema
from models.data.schema import Direction, Feature, Schema
from models.datasets import load
from models.datasets.dataset import Dataset, Labelled, Splits, split_frame
from models.datasets.loans import loans
from models.ensemble.local import LocalEnsemble
from models.ensemble.recipes import MEMBER_NAMES
from models.ensemble.votes import votes
from models.errors import DataError, MissingDataError
from models.evaluation.evaluation import Cases, OutlierDetectors, fit_detectors
from models.evaluation.survival import ENSEMBLES, Group, other_models
from models.model import RecourseModel

DATASETS = ("heloc", "compas", "adult", "blood", "loans", "chessboard", "compas_dated")
FAVOURED: Mapping[str, str] = {
    "heloc": "Good",
    "compas": "0",
    "compas_dated": "0",
    "adult": ">50K",
    "blood": "1",
    "loans": "approved",
}
"""What the applicants want; elsewhere the last class."""
ONE = "mlp"
"""The asked model of a lender that has one."""
YEARS, LATER_SEED = 3.0, 100
EARLY = 0.6
"""The share of the days whose rows are the data set; those of the other days are the later rows."""
RULES = ("none", "default")


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is done: refused records, the share of the training, ensembles in each group, asked models."""

    records: int = 100
    effort: float = 1.0
    ensembles: int = ENSEMBLES
    members: tuple[str, ...] = MEMBER_NAMES
    one: str = ONE
    base: Config | None = None


class Material:
    """Everything that a method needs, made when it is first asked for and kept in the cache on disk."""

    def __init__(self, dataset: str, seed: int, rules: str, settings: Settings, places: Places) -> None:
        torch.set_num_threads(1)
        self.dataset, self.seed, self.rules, self.settings, self.places = dataset, seed, rules, settings, places
        self._cache = TrainingCache(places.cache, settings.members)
        self._cache_of_one = TrainingCache(places.cache, (settings.one,))

    @cached_property
    def _frames(self) -> tuple[Dataset, pd.DataFrame | None]:
        """The data set, and its later rows where it has some"""
        if self.dataset == "compas_dated":
            return _by_day(self.places)
        later = loans(seed=LATER_SEED, years=YEARS).frame if self.dataset == "loans" else None
        return load(self.dataset, self.places.data, seed=0), later

    @cached_property
    def _schema(self) -> Schema:
        """Of all rows, the later ones too, so that no model meets a category it cannot read; without any rule"""
        dataset, later = self._frames
        frame = dataset.frame if later is None else pd.concat([dataset.frame, later], ignore_index=True)
        schema = infer_schema(frame, dataset.label, dataset.overrides)
        return replace(schema, features=tuple(_freed(each) for each in schema.features))

    @cached_property
    def free(self) -> Splits:
        """The splits by which all ensembles are trained, whatever the rules of the search"""
        return split_frame(self._schema, self._frames[0].frame, self.seed, "circle")

    @cached_property
    def study(self) -> Splits:
        """The same splits under the rules of the search"""
        if self.rules == "none":
            return self.free
        dataset = self._frames[0]
        told = {each.name: each for each in infer_schema(dataset.frame, dataset.label, dataset.overrides).features}
        features = (
            replace(
                each,
                immutable=told[each.name].immutable,
                protected=told[each.name].protected,
                direction=told[each.name].direction,
            )
            for each in self._schema.features
        )
        return split_frame(replace(self._schema, features=tuple(features)), dataset.frame, self.seed, "circle")

    @property
    def target(self) -> int:
        classes = self._schema.classes
        wanted = FAVOURED.get(self.dataset, classes[-1])
        return classes.index(wanted) if wanted in classes else len(classes) - 1

    @cached_property
    def asked(self) -> LocalEnsemble:
        return self._cache.ensemble(self._job(self.seed), self.free)

    @cached_property
    def asked_one(self) -> LocalEnsemble:
        return self._cache_of_one.ensemble(self._job(self.seed), self.free)

    @cached_property
    def groups(self) -> dict[str, Group]:
        """None of these models is ever shown to the engine"""
        later = None
        if (frame := self._frames[1]) is not None:
            later = Labelled(to_records(self._schema, frame), labels_to_codes(self._schema, frame[self._schema.label]))
        return other_models(self.free, self.asked, self._fit, self.seed, later, self.settings.ensembles, all_families)

    def _fit(self, rows: Labelled, seed: int) -> LocalEnsemble:
        return self._cache.ensemble(self._job(seed), replace(self.free, training=rows))

    def model(self, one: bool = False) -> RecourseModel:
        """Distilled from the asked models, or from the one"""
        config = self.settings.base or config_for(self.dataset).scaled(self.settings.effort)
        cache, ensemble = (self._cache_of_one, self.asked_one) if one else (self._cache, self.asked)
        return cache.model(self._job(self.seed), self.study, ensemble, config)[0]

    @cached_property
    def refused(self) -> Cases:
        """Test records that all asked models refuse, the same for every method"""
        return Cases(*self._chosen(accepted=False))

    @cached_property
    def approved(self) -> Cases:
        """Test records that all asked models accept: real applicants, the ceiling"""
        return Cases(*self._chosen(accepted=True))

    @cached_property
    def accepted_rows(self) -> Records:
        """Training records that all asked models accept"""
        records = self.free.training.records
        return records[self._all_say(records, accepted=True)]

    @cached_property
    def detectors(self) -> OutlierDetectors:
        points = self.free.encoder.encode(self.free.training.records)
        return fit_detectors(points, EvaluationConfig(seed=self.seed))

    def _chosen(self, accepted: bool) -> tuple[Records, np.ndarray[tuple[int], np.dtype[np.int64]]]:
        records = self.free.test.records
        rows = np.flatnonzero(self._all_say(records, accepted))
        if not len(rows):
            raise DataError(f"All asked models together {'accept' if accepted else 'refuse'} no test record.")
        rows = np.random.default_rng(self.seed).permutation(rows)[: self.settings.records]
        return records[rows], np.full(len(rows), self.target, dtype=np.int64)

    def _all_say(self, records: Records, accepted: bool) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        said = votes(self.asked.predict_proba(records), np.full(len(records), self.target, dtype=np.int64))
        return np.asarray((said == accepted).all(axis=0))

    def _job(self, seed: int) -> Job:
        return Job(self.dataset, seed, "quick", self.settings.records)


def _freed(feature: Feature) -> Feature:
    return replace(feature, immutable=False, protected=False, direction=Direction.ANY)


def _by_day(places: Places) -> tuple[Dataset, pd.DataFrame]:
    """Compas with its days of screening: the earlier rows, and the later ones"""
    dated = None if places.data is None else places.data / "compas_dated.csv.gz"
    if dated is None or not dated.is_file():
        raise MissingDataError("Set RECOURSE_DATA to the folder that holds compas_dated.csv.gz.")
    known = load("compas", places.data)
    frame = pd.read_csv(dated, skipinitialspace=True).sort_values("screening_date", kind="stable")
    frame, columns = frame.reset_index(drop=True), list(known.frame.columns)
    early = frame["screening_date"] <= frame["screening_date"].iloc[int(EARLY * len(frame))]
    rows = frame.loc[early, columns].reset_index(drop=True)
    return Dataset("compas_dated", rows, known.label, known.overrides), frame.loc[~early, columns]
