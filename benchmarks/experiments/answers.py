"""Answers of any method, and the figures that are measured on them: on decoded records, by asking the models anew."""

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from benchmarks.experiments.bench import Bench
from benchmarks.rivals.rival import NO_QUERIES, Queries
from models.encoding import cost
from models.ensemble.meter import QueryMeter
from models.ensemble.votes import votes
from models.evaluation import Cases
from models.matrix import Records
from models.model import RecourseModel
from models.polishing import count_changes
from models.records import check_record
from models.search import SearchConfig, explain


@dataclass(frozen=True, eq=False)
class Answers:
    """Counterfactuals (n, F) of the cases, and what they took: queries and seconds, training included.

    fidelity is the share of test records that a white-box method's own network puts where most models do.
    """

    cases: Cases
    records: Records
    queries: Queries = NO_QUERIES
    fit_seconds: float = 0.0
    explain_seconds: float = 0.0
    note: str = ""
    fidelity: float | None = None


def answer(
    bench: Bench, model: RecourseModel, search: SearchConfig, cases: Cases | None = None, fit_seconds: float = 0.0
) -> Answers:
    """Our own search; with queries allowed, each record's are counted and held to the limit"""
    cases = cases or bench.cases
    meter = QueryMeter(bench.ensemble, search.max_queries * len(cases))
    started = perf_counter()
    found = explain(model, cases.records, cases.target, None, search, meter)
    seconds = perf_counter() - started
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
    return values if answers.fidelity is None else values | {"fidelity": answers.fidelity}


def cost_and_validity(bench: Bench, answers: Answers) -> tuple[float, float]:
    agreed = votes(bench.ensemble.predict_proba(answers.records), answers.cases.target)
    away = cost(bench.encoder.encode(answers.records), bench.encoder.encode(answers.cases.records))
    return float(away.mean()), float(np.mean(agreed))
