"""Answers of any method, and the figures that are measured on them: on decoded records, by asking the models anew."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.experiments.bench import Bench
from benchmarks.rivals.rival import NO_QUERIES, Queries
from models.arrays import Records
from models.config import SearchConfig
from models.data.records import check_record
from models.ensemble.meter import QueryMeter
from models.ensemble.votes import votes
from models.evaluation.evaluation import Cases
from models.model import RecourseModel
from models.search.local_search import count_changes
from models.search.search import explain
from models.space.encoding import cost


def processor_seconds() -> float:
    """Of this process and its ended children, since it began: other work on the machine does not count."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


@dataclass(frozen=True, eq=False)
class Answers:
    """Counterfactuals (n, F) of the cases, and what they took: queries and processor seconds, training included.

    extra   figures that only this method has, by name
    """

    cases: Cases
    records: Records
    queries: Queries = NO_QUERIES
    fit_seconds: float = 0.0
    explain_seconds: float = 0.0
    note: str = ""
    extra: Mapping[str, float] = field(default_factory=dict)


def answer(
    bench: Bench, model: RecourseModel, search: SearchConfig, cases: Cases | None = None, fit_seconds: float = 0.0
) -> Answers:
    """Our own search; with queries allowed, each record's are counted and held to the limit"""
    cases = cases or bench.cases
    meter = QueryMeter(bench.ensemble, search.max_queries * len(cases))
    started = processor_seconds()
    found = explain(model, cases.records, cases.target, None, search, meter)
    seconds = processor_seconds() - started
    records = cases.records.copy()
    for row, explanation in enumerate(found):
        if explanation.counterfactuals:
            records[row] = check_record(bench.encoder.schema, explanation.counterfactuals[0].record)[0]
    asked = model.queries + sum(explanation.queries for explanation in found)
    return Answers(cases, records, Queries(asked, model.queries + meter.spent), fit_seconds, seconds)


def figures(bench: Bench, answers: Answers) -> Mapping[str, float]:
    """The figures of METHOD.md, section 8; queries are those of the whole run"""
    cases, encoder = answers.cases, bench.encoder
    points = encoder.encode(answers.records)
    agreed = votes(bench.ensemble.predict_proba(answers.records), cases.target)
    changed = count_changes(answers.records, cases.records)
    values = {
        "validity": float(agreed.mean()),
        "unanimity": float(agreed.all(axis=0).mean()),
        "cost": float(cost(points, encoder.encode(cases.records)).mean()),
        "changed": float(changed.mean()),
        "unanswered": float((changed == 0).mean()),
        "lof": float(bench.detectors.lof(points).mean()),
        "isoforest": float(bench.detectors.isolation(points).mean()),
        "queries": float(answers.queries.distinct),
        "queries asked": float(answers.queries.asked),
        "seconds": answers.fit_seconds + answers.explain_seconds,
        "explain ms": 1000 * answers.explain_seconds / len(cases),
        "records": float(len(cases)),
    }
    return {**values, **_of_the_few(bench, answers), **answers.extra}


def _of_the_few(bench: Bench, answers: Answers) -> dict[str, float]:
    """The same on the first records alone, which is all that the slow methods answer"""
    if len(answers.cases) <= bench.settings.slow_records:
        return {}
    away, validity = cost_and_validity(bench, answers, bench.settings.slow_records)
    return {"few cost": away, "few validity": validity}


def cost_and_validity(bench: Bench, answers: Answers, count: int | None = None) -> tuple[float, float]:
    """Means over the records, or over the first `count` of them"""
    records, cases = answers.records[:count], answers.cases.first(count or len(answers.cases))
    agreed = votes(bench.ensemble.predict_proba(records), cases.target)
    away = cost(bench.encoder.encode(records), bench.encoder.encode(cases.records))
    return float(away.mean()), float(np.mean(agreed))
