"""Answers as JSON. The keys are a promise: the HTTP contract, the decision records and `recourse explain --json`."""

from collections.abc import Sequence

from pydantic_core import to_json

from app.explaining.protocol import RecordAnswer
from models.answers import Counterfactual, Diagnosis, Explanation, PathPoint
from models.records import Value

Document = dict[str, object]


def record_answer(answer: Explanation, trajectory: Sequence[PathPoint] | None = None) -> RecordAnswer:
    """The answer, written once."""
    document = explanation_document(answer)
    if trajectory is not None:
        document["trajectory"] = [_point_document(point) for point in trajectory]
    # What is not a finite number has no JSON; "null" says that it is not known.
    return RecordAnswer(answer.status.value, answer.queries, to_json(document, inf_nan_mode="null"), answer.charged)


def explanation_document(answer: Explanation) -> Document:
    return {
        "status": answer.status.value,
        "error": answer.error,
        "queries": answer.queries,
        "diagnosis": None if answer.diagnosis is None else _diagnosis_document(answer.diagnosis),
        "counterfactuals": [_counterfactual_document(found) for found in answer.counterfactuals],
    }


def _diagnosis_document(diagnosis: Diagnosis) -> Document:
    return {
        "best_agreement": diagnosis.best_agreement,
        "verified": diagnosis.verified,
        "dissenting": list(diagnosis.dissenting),
        "binding": [{"feature": entry.feature, "gain": entry.gain} for entry in diagnosis.binding],
        "advice": diagnosis.advice,
    }


def _counterfactual_document(found: Counterfactual) -> Document:
    return {
        "record": found.record,
        "changes": [{"feature": c.feature, "from": c.before, "to": c.after} for c in found.changes],
        "cost": found.cost,
        "density": found.density,
        "typicality": found.typicality,
        "trusted": found.trusted,
        "expected_agreement": found.expected_agreement,
        "votes": [{"model": vote.model, "accepts": vote.accepts} for vote in found.votes],
        "agreement": found.agreement,
        "lower_bound": found.lower_bound,
    }


def _point_document(point: PathPoint) -> dict[str, float | dict[str, Value]]:
    return {
        "time": point.time,
        "record": point.record,
        "cost": point.cost,
        "expected_agreement": point.expected_agreement,
    }
