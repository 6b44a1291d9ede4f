"""The figures of a new version, measured on held-out records; `MeasureConfig` says how many, and at what cost.

Three groups of figures:
    expected       what the surrogate says of its own answers, without a query;
    verified       what the ensemble says of the first `checks` of them (None where no queries are left);
    beside_oracle  the same records answered by the oracle, which may ask a bounded number of times: the nearest
                   training records of the target class until one has every vote, then back towards the applicant.

The last tells a person, on a handful of records, how much better an answer could be; the benchmark of the method is
`models.evaluation.evaluation`, whose oracle asks as often as it likes.
"""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Records, Targets
from ..config import MeasureConfig, OracleConfig, SearchConfig
from ..datasets.dataset import Labelled, Splits
from ..ensemble.meter import QueryMeter
from ..ensemble.protocol import Ensemble
from ..ensemble.votes import agreement, answered
from ..errors import QueryLimitError
from ..model import RecourseModel
from ..search.local_search import count_changes
from ..search.scoring import score_points
from ..search.search import explain
from ..space.encoding import cost
from .evaluation import Cases, answered_records, oracle_answers, search_answers

UNANIMOUS = 1.0 - 1e-9


def measure(
    model: RecourseModel, splits: Splits, ensemble: Ensemble, config: MeasureConfig, seed: int
) -> dict[str, object]:
    """Explain held-out records as POST /explain would without queries, then verify some and compare some.

    At most `config.queries` records are put to the ensemble.
    """
    rows, target = _choose(model, splits.test, config, seed)
    records = splits.test.records[rows]
    found = explain(model, records, target, None, SearchConfig(seed=seed))
    solved = np.array([bool(explanation.counterfactuals) for explanation in found], dtype=bool)
    answers = answered_records(model.encoder, records, found)
    metrics: dict[str, object] = {"expected": {"records": len(rows), "answered": 0.0}}
    if solved.any():
        chosen = answers[solved], records[solved], target[solved]
        metrics["expected"] = _expected(model, *chosen) | {"records": len(rows), "answered": float(solved.mean())}
        metrics["verified"] = _verify(ensemble, chosen[0][: config.checks], chosen[2][: config.checks])
    if config.oracle_records:
        cases = Cases(records, target).first(config.oracle_records)
        metrics["beside_oracle"] = beside_oracle(model, splits.training, ensemble, cases, answers, config, seed)
    return metrics


def beside_oracle(
    model: RecourseModel,
    training: Labelled,
    ensemble: Ensemble,
    cases: Cases,
    unverified: Records,
    config: MeasureConfig,
    seed: int,
) -> dict[str, object]:
    """Validity, unanimity and cost of each way; {"skipped": why} where the queries did not suffice.

    unverified (n, F): the answers of the surrogate alone, those to the cases first
    """
    count, search = len(cases), SearchConfig(max_queries=config.verified_queries, seed=seed)
    meter = QueryMeter(ensemble, count * config.queries_each)
    try:
        answers = {
            "unverified": unverified[:count],
            "verified": search_answers(model, cases, search, meter).records,
            "oracle": oracle_answers(model, cases, meter, training, bounded_oracle(config, count)).records,
        }
        figures = {name: _figures(model, meter, cases, found) for name, found in answers.items()}
    except QueryLimitError as error:
        return {"skipped": str(error)}
    limit, ours = figures["oracle"]["cost"], figures["verified"]["cost"]
    ratio = ours / limit if limit > 0 else None
    return {"records": count, "queries": meter.spent, "cost_ratio": ratio, **figures}


def bounded_oracle(config: MeasureConfig, records: int) -> OracleConfig:
    """The oracle within the queries of so many records; half of them are for the search of a place to start from."""
    queries = records * config.oracle_queries
    return OracleConfig(queries=queries, start_queries=queries // 2, neighbours=config.neighbours, fractions=4)


def _choose(model: RecourseModel, test: Labelled, config: MeasureConfig, seed: int) -> tuple[NDArray[np.intp], Targets]:
    """Held-out rows that need a change, and a class for each that it is not of."""
    random = np.random.default_rng(seed)
    classes = len(model.classes)
    target = (test.labels + random.integers(1, classes, size=len(test))) % classes
    order = random.permutation(len(test))
    expected = score_points(model, model.encoder.encode(test.records), target).agreement
    refused = order[expected[order] < config.refused]
    rows = (refused if len(refused) else order)[: config.records]
    return rows, target[rows]


def _expected(model: RecourseModel, answers: Records, records: Records, target: Targets) -> dict[str, float]:
    """answers, records (n, F), target (n,) -> means, the agreement as the surrogate expects it"""
    points = model.encoder.encode(answers)
    return {
        "agreement": float(score_points(model, points, target).agreement.mean()),
        "cost": float(cost(points, model.encoder.encode(records)).mean()),
        "changes": float(count_changes(answers, records).mean()),
    }


def _verify(ensemble: Ensemble, answers: Records, target: Targets) -> dict[str, float] | None:
    """answers (n, F), target (n,): the share of votes for the target, and of answers that have all of them"""
    if not len(answers):
        return None
    try:
        said = ensemble.predict_proba(answers)
    except QueryLimitError:
        return None
    share = agreement(said, target)[answered(said).any(axis=0)]
    if not len(share):
        return None
    return {"records": len(share), "agreement": float(share.mean()), "unanimous": float((share == 1.0).mean())}


def _figures(model: RecourseModel, meter: QueryMeter, cases: Cases, answers: Records) -> dict[str, float]:
    """answers (n, F) -> their means, the votes as the ensemble gives them"""
    share = agreement(meter.predict_proba(answers), cases.target)
    paid = cost(model.encoder.encode(answers), model.encoder.encode(cases.records))
    return {
        "validity": float(share.mean()),
        "unanimity": float(np.mean(share >= UNANIMOUS)),
        "cost": float(paid.mean()),
    }
