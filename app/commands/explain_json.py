"""The answers as JSON. The keys are a promise: scripts read them."""

import json

from app.commands.explain_run import ExplainReport
from app.explain.answer import record_answer


def report_json(report: ExplainReport) -> str:
    """One object; `explanations` is a list in the order of the records, `row` counts from 1."""
    document = {
        "model": report.version,
        "target": report.target,
        "seed": report.config.seed,
        "min_agreement": report.config.min_agreement,
        "max_queries": report.config.max_queries,
        "queries": report.queries,
        "explanations": [
            {"row": row, **json.loads(record_answer(answer).body)}
            for row, answer in enumerate(report.explanations, start=1)
        ],
    }
    return json.dumps(document, indent=2, allow_nan=False)
