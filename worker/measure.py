"""The figures of a new version, on records that nothing was trained on.

`expected` is what the surrogate says of its own answers, without a query. `verified` puts a few of those answers to the
ensemble, paid from the job's queries: null where none were left. `beside_oracle` compares some with the oracle's.
"""

import numpy as np

from app.train.request import Plan
from models.arrays import Records, Targets
from models.config import SearchConfig
from models.datasets.dataset import Study
from models.ensemble.local import LocalEnsemble
from models.ensemble.protocol import Ensemble
from models.ensemble.votes import agreement, answered
from models.errors import QueryLimitError
from models.evaluation.evaluation import answered_records
from models.model import RecourseModel
from models.search.local_search import count_changes
from models.search.scoring import score_points
from models.search.search import explain
from models.space.encoding import cost
from worker.beside_oracle import Sample, beside_oracle

RECORDS = 200
REFUSED = 0.5
"""A held-out record is explained where the surrogate expects less agreement with its target than this."""


def member_accuracy(ensemble: LocalEnsemble, study: Study) -> dict[str, float]:
    """The share of the held-out rows that each member gets right; asked before the ensemble is a metered one."""
    right = ensemble.predict_proba(study.test.records).argmax(axis=2) == study.test.labels
    return {name: float(share) for name, share in zip(ensemble.member_names, right.mean(axis=1), strict=True)}


def measure(model: RecourseModel, study: Study, ensemble: Ensemble, plan: Plan, seed: int) -> dict[str, object]:
    """Explain held-out records as POST /explain would without queries, then verify the first `plan.checks` of them."""
    rows, target = _choose(model, study, seed)
    records = study.test.records[rows]
    found = explain(model, records, target, None, SearchConfig(seed=seed))
    solved = np.array([bool(explanation.counterfactuals) for explanation in found], dtype=bool)
    answers = answered_records(model.encoder, records, found)
    metrics: dict[str, object] = {"expected": {"records": len(rows), "answered": 0.0}}
    if solved.any():
        chosen = answers[solved], records[solved], target[solved]
        metrics["expected"] = _expected(model, *chosen) | {"records": len(rows), "answered": float(solved.mean())}
        metrics["verified"] = _verify(ensemble, chosen[0][: plan.checks], chosen[2][: plan.checks])
    compared = slice(plan.oracle_records)
    if plan.oracle_records:
        sample = Sample(records[compared], target[compared], answers[compared])
        metrics["beside_oracle"] = beside_oracle(model, study.training, ensemble, sample, seed)
    elif plan.skipped is not None:
        metrics["beside_oracle"] = {"skipped": plan.skipped}
    return metrics


def _expected(model: RecourseModel, answers: Records, records: Records, target: Targets) -> dict[str, float]:
    """answers, records (n, F), target (n,) -> means, the agreement as the surrogate expects it"""
    points = model.encoder.encode(answers)
    return {
        "agreement": float(score_points(model, points, target).agreement.mean()),
        "cost": float(cost(points, model.encoder.encode(records)).mean()),
        "changes": float(count_changes(answers, records).mean()),
    }


def _choose(model: RecourseModel, study: Study, seed: int) -> tuple[np.ndarray, Targets]:
    """Held-out rows that need a change, and a class for each that it is not of."""
    random, test = np.random.default_rng(seed), study.test
    classes = len(model.classes)
    target = (test.labels + random.integers(1, classes, size=len(test))) % classes
    order = random.permutation(len(test))
    expected = score_points(model, model.encoder.encode(test.records), target).agreement
    refused = order[expected[order] < REFUSED]
    rows = (refused if len(refused) else order)[:RECORDS]
    return rows, target[rows]


def _verify(ensemble: Ensemble, answers: np.ndarray, target: Targets) -> dict[str, float] | None:
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
