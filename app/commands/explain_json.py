"""The answers as JSON. The keys are a promise: scripts read them."""

import json

from app.commands.explain_run import ExplainReport
from models.answers import Counterfactual, Diagnosis, Explanation


def report_json(report: ExplainReport) -> str:
    """One object; `explanations` is a list in the order of the records, `row` counts from 1."""
    document = {
        "model": report.version,
        "target": report.target,
        "seed": report.config.seed,
        "min_agreement": report.config.min_agreement,
        "max_queries": report.config.max_queries,
        "queries": report.queries,
        "explanations": [_explanation(row, answer) for row, answer in enumerate(report.explanations, start=1)],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _explanation(row: int, answer: Explanation) -> dict[str, object]:
    return {
        "row": row,
        "status": answer.status.value,
        "error": answer.error,
        "queries": answer.queries,
        "diagnosis": None if answer.diagnosis is None else _diagnosis(answer.diagnosis),
        "counterfactuals": [_counterfactual(found) for found in answer.counterfactuals],
    }


def _diagnosis(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "best_agreement": diagnosis.best_agreement,
        "verified": diagnosis.verified,
        "dissenting": list(diagnosis.dissenting),
        "binding": [{"feature": entry.feature, "gain": entry.gain} for entry in diagnosis.binding],
        "advice": diagnosis.advice,
    }


def _counterfactual(found: Counterfactual) -> dict[str, object]:
    return {
        "record": found.record,
        "changes": [{"feature": c.feature, "from": c.before, "to": c.after} for c in found.changes],
        "cost": found.cost,
        "density": found.density,
        "trusted": found.trusted,
        "expected_agreement": found.expected_agreement,
        "votes": [{"model": vote.model, "accepts": vote.accepts} for vote in found.votes],
        "agreement": found.agreement,
        "lower_bound": found.lower_bound,
    }
