"""One run of the quality benchmark: a data set and a seed, from the data to the measurements."""

import argparse
from collections.abc import Sequence
from dataclasses import replace

import torch

from benchmarks.quality.cache import TrainingCache
from benchmarks.quality.summary import Job
from benchmarks.store import Places
from models.config import Config, EvaluationConfig, LossConfig, fast
from models.datasets import load
from models.datasets.dataset import split_dataset
from models.ensemble.recipes import MEMBER_NAMES
from models.evaluation.evaluation import PUBLISHED, Evaluation, evaluate

ORACLE_RECORDS = 200
"""So many of them are also put to verified search and to the oracle, which asks the ensemble thousands of times."""
MUSK_FEATURES = 10
"""As many features flow on Musk as in the paper's row that ours stands beside."""


def run_job(
    job: Job, places: Places, config: Config | None = None, members: Sequence[str] = MEMBER_NAMES
) -> Evaluation:
    """A data set that is made here is made from seed 0; the job's seed is that of the split and of the training."""
    torch.set_num_threads(1)
    study = split_dataset(load(job.dataset, places.data, seed=0), job.seed)
    cache = TrainingCache(places.cache, members)
    ensemble = cache.ensemble(job, study)
    model, seconds = cache.model(job, study, ensemble, config or config_for(job.dataset))
    published = PUBLISHED.get(job.dataset)
    settings = EvaluationConfig(
        records=job.limit,
        oracle_records=min(job.limit, ORACLE_RECORDS),
        cost_budget=None if published is None else published.cost,
        seed=job.seed,
    )
    return evaluate(model, ensemble, study.training, study.validation, study.test, settings, train_seconds=seconds)


def config_for(dataset: str) -> Config:
    """Our preset; of Musk's 166 features only a few flow, and they have to go far, so that cost weighs less."""
    if dataset != "musk":
        return fast()
    return replace(fast(), top_features=MUSK_FEATURES, loss=LossConfig(cost_low=0.001, cost_high=0.3))


def parse_seeds(text: str) -> tuple[int, ...]:
    """ "0-4" or "0,2,5" -> the seeds"""
    first, dash, last = text.partition("-")
    seeds = tuple(range(int(first), int(last) + 1)) if dash else tuple(int(part) for part in text.split(","))
    if not seeds:
        raise argparse.ArgumentTypeError(f"'{text}' names no seed; write 0-4 or 0,2,5")
    return seeds
