"""10,000 random constrained requests, and what half of the features frozen costs: `python -m benchmarks.constraints`.

The check reads the answers' raw values and shares no code with the search. Ensembles and models come from the cache of
benchmarks.quality where they are there. Writes benchmarks/results/constraints.json.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.quality.cache import TrainingCache
from benchmarks.quality.summary import Job
from benchmarks.store import CACHE, RESULTS, Places, write_whole
from models.config import SearchConfig, fast
from models.data.records import Value, check_record
from models.data.schema import Direction, Feature
from models.datasets import load
from models.datasets.dataset import Splits, split_dataset
from models.ensemble.local import LocalEnsemble
from models.model import RecourseModel
from models.search.answers import Explanation
from models.search.search import explain
from models.space.constraints import Constraints, Range

MIXED = ("loans", "adult", "compas")
RECORDS = 40
"""Records that share one drawn set of constraints."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One data set: requests, answers, broken constraints; validity free and with half of the features frozen."""

    dataset: str
    requests: int
    answers: int
    broken: int
    validity_free: float
    validity_half_frozen: float
    cost_free: float
    cost_half_frozen: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--datasets", nargs="+", default=list(MIXED))
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    places = Places.of(options.cache)
    outcomes = []
    for name in options.datasets:
        job = Job(name, 0, "quick", 200)
        study = split_dataset(load(name, places.data, seed=0), 0)
        cache = TrainingCache(places.cache)
        ensemble = cache.ensemble(job, study)
        model, _ = cache.model(job, study, ensemble, fast())
        outcome = measure(name, model, ensemble, study, options.requests // len(options.datasets) + 1)
        Console(stderr=True).print(outcome)
        outcomes.append({key: getattr(outcome, key) for key in Outcome.__slots__})
    write_whole(RESULTS / "constraints.json", json.dumps(outcomes, indent=1))


def measure(name: str, model: RecourseModel, ensemble: LocalEnsemble, study: Splits, requests: int) -> Outcome:
    """Random constraints on random test records, then the two validities on the same records."""
    random = np.random.default_rng(0)
    asked = answers = broken = 0
    while asked < requests:
        rows = random.permutation(len(study.test))[:RECORDS]
        constraints = draw(model, study, random)
        target = 1 - study.test.labels[rows]
        found = explain(
            model, study.test.records[rows], target, constraints, SearchConfig(k=2, min_expected_agreement=0.0)
        )
        asked += len(rows)
        answers += sum(len(each.counterfactuals) for each in found)
        broken += sum(len(faults(model.encoder.schema.features, constraints, each)) for each in found)
    free, cost_free = validity(model, ensemble, study, None)
    half, cost_half = validity(model, ensemble, study, random)
    return Outcome(name, asked, answers, broken, free, half, cost_free, cost_half)


def draw(model: RecourseModel, study: Splits, random: np.random.Generator) -> Constraints:
    """Each feature is left alone, frozen, bounded or made one-way."""
    frozen: set[str] = set()
    ranges: dict[str, Range] = {}
    directions: dict[str, Direction] = {}
    for j, feature in enumerate(model.encoder.schema.features):
        kind = random.integers(5)
        fixed = feature.immutable or feature.protected or feature.direction is not Direction.ANY
        if kind == 0:
            frozen.add(feature.name)
        elif kind == 1 and not fixed and feature.is_categorical:
            kept = random.permutation(feature.categories)[: 1 + len(feature.categories) // 2]
            ranges[feature.name] = tuple(kept.tolist())
        elif kind == 1 and not fixed:
            low, high = np.nanquantile(study.training.records[:, j], np.sort(random.random(2)))
            ranges[feature.name] = (float(low), max(float(high), float(low) + feature.step))
        elif kind == 2 and (feature.ordered or not feature.is_categorical):
            directions[feature.name] = Direction.UP if random.random() < 0.5 else Direction.DOWN
    return Constraints(frozenset(frozen), {k: v for k, v in ranges.items() if k not in directions}, directions)


def faults(features: tuple[Feature, ...], constraints: Constraints, found: Explanation) -> list[str]:
    """What the answers break, by their raw values."""
    wrong = []
    for answer in found.counterfactuals:
        changed = {change.feature: change for change in answer.changes}
        for feature in features:
            name, value = feature.name, answer.record[feature.name]
            if name in changed:
                wrong += _bad_change(feature, constraints, changed[name].before, value)
            wanted = constraints.ranges.get(name)
            if wanted is not None and not _within(feature, value, wanted):
                wrong.append(f"{name} = {value} is not in {wanted}")
    return wrong


def _bad_change(feature: Feature, constraints: Constraints, before: Value, after: Value) -> list[str]:
    name, wrong = feature.name, []
    if name in constraints.immutable or feature.immutable or feature.protected:
        wrong.append(f"{name} was frozen")
    old, new = _rank(feature, before), _rank(feature, after)
    for way in {feature.direction, constraints.directions.get(name, Direction.ANY)} - {Direction.ANY}:
        if (new > old) != (way is Direction.UP):
            wrong.append(f"{name} went from {before} to {after}")
    if not feature.is_categorical and not feature.lower <= new <= feature.upper:
        wrong.append(f"{name} = {after} is outside its bounds")
    return wrong


def _rank(feature: Feature, value: Value) -> float:
    """A number's value, or the place of a category in its order."""
    if isinstance(value, int | float):
        return float(value)
    return float((feature.order or feature.categories).index(value)) if value is not None else 0.0


def _within(feature: Feature, value: Value, wanted: Range) -> bool:
    if feature.is_categorical:
        return value in wanted
    low, high = wanted
    return isinstance(value, int | float) and float(low or 0) <= value <= float(high or 0)


def validity(
    model: RecourseModel, ensemble: LocalEnsemble, study: Splits, random: np.random.Generator | None
) -> tuple[float, float]:
    """The mean share of models that accept, and the mean cost; with `random`, half of the features frozen"""
    rows = np.arange(min(400, len(study.test)))
    sure = (ensemble.predict_proba(study.test.records[rows]).argmax(axis=2) == study.test.labels[rows]).all(axis=0)
    rows = rows[sure][:200]
    names, votes, costs = model.encoder.schema.names, [], []
    for part in np.array_split(rows, 20):
        half = random.permutation(names)[: len(names) // 2].tolist() if random is not None else []
        target: NDArray[np.int64] = 1 - study.test.labels[part]
        found = explain(model, study.test.records[part], target, Constraints(immutable=frozenset(half)))
        kept = [row for row, each in enumerate(found) if each.counterfactuals]
        answers = np.concatenate(
            [check_record(model.encoder.schema, found[row].counterfactuals[0].record) for row in kept]
        )
        votes.append((ensemble.predict_proba(answers).argmax(axis=2) == target[kept]).mean(axis=0))
        costs += [found[row].counterfactuals[0].cost for row in kept]
    return float(np.concatenate(votes).mean()), float(np.mean(costs))


if __name__ == "__main__":
    main()
