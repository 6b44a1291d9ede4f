"""One run of the quality benchmark: a data set and a seed, from the data to the measurements."""

import argparse
from collections.abc import Sequence
from dataclasses import replace

import torch

from benchmarks.quality.cache import TrainingCache
from benchmarks.quality.summary import Job, MeasuredPoint, Outcome
from benchmarks.store import Places
from models.config import Config, EvaluationConfig, FrontierConfig, LossConfig, SearchConfig, fast
from models.datasets import load
from models.datasets.dataset import split_dataset
from models.ensemble.protocol import Ensemble
from models.ensemble.recipes import MEMBER_NAMES
from models.ensemble.votes import votes
from models.evaluation.evaluation import PUBLISHED, Cases, choose_cases, evaluate, search_answers
from models.model import RecourseModel
from models.space.encoding import cost

ORACLE_RECORDS = 200
"""So many of them are also put to verified search and to the oracle, which asks the ensemble thousands of times."""
FRONTIER_RECORDS = 500
MUSK_FEATURES = 10
"""As many features may change on Musk as in the paper's row that ours stands beside."""


def run_job(job: Job, places: Places, config: Config | None = None, members: Sequence[str] = MEMBER_NAMES) -> Outcome:
    """A data set that is made here is made from seed 0; the job's seed is that of the split and of the training."""
    torch.set_num_threads(1)
    study = split_dataset(load(job.dataset, places.data, seed=0), job.seed, "circle")
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
    found = evaluate(model, ensemble, study, settings, train_seconds=seconds)
    cases = choose_cases(ensemble, study.test, job.limit, job.seed).first(FRONTIER_RECORDS)
    prices = FrontierConfig().cost_weights
    return Outcome(found.qualities, tuple(measured_point(model, ensemble, cases, price, job.seed) for price in prices))


def measured_point(model: RecourseModel, ensemble: Ensemble, cases: Cases, price: float, seed: int) -> MeasuredPoint:
    """What the surrogate's search costs at this price, and how well it holds"""
    config = SearchConfig(cost_weight=price, min_expected_agreement=0.0, seed=seed)
    answers, encoder = search_answers(model, cases, config, ensemble).records, model.encoder
    agreed = votes(ensemble.predict_proba(answers), cases.target)
    paid = cost(encoder.encode(answers), encoder.encode(cases.records))
    return MeasuredPoint(price, float(paid.mean()), float(agreed.mean()), float(agreed.all(axis=0).mean()))


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
