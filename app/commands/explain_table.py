"""The answers for a person: what to change, who would agree, and how sure that is."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app.commands.explain_run import ExplainReport
from models.data.records import Value
from models.search.answers import Counterfactual, Diagnosis, Explanation, Status

COLOURS = {
    Status.ROBUST: "green",
    Status.VALID: "yellow",
    Status.ALREADY_TARGET: "green",
    Status.INFEASIBLE: "red",
    Status.ERROR: "red",
}


def report_table(report: ExplainReport) -> RenderableType:
    """One block a record, and a line for all of them."""
    blocks = [_block(row, answer, report) for row, answer in enumerate(report.explanations, start=1)]
    counts = ", ".join(f"{count} {status}" for status, count in _counts(report).items())
    noun = "record" if len(blocks) == 1 else "records"
    return Group(*blocks, Text(f"{len(blocks)} {noun}: {counts}; {report.queries} queries."))


def vote_sentence(found: Counterfactual) -> str:
    """What is known of one answer, and no more than that."""
    if found.agreement is None:
        return f"Not verified; the surrogate expects {found.expected_agreement:.0%} of the models to accept."
    heard = [vote for vote in found.votes if vote.accepts is not None]
    sentence = f"{sum(vote.accepts is True for vote in heard)} of {len(heard)} models accept."
    silent = [vote.model for vote in found.votes if vote.accepts is None]
    return f"{sentence} No answer from {', '.join(silent)}." if silent else sentence


def _counts(report: ExplainReport) -> dict[str, int]:
    statuses = [answer.status for answer in report.explanations]
    return {status.value.replace("_", " "): statuses.count(status) for status in Status if status in statuses}


def _block(row: int, answer: Explanation, report: ExplainReport) -> RenderableType:
    heading = Text(f"Row {row}: ", style="bold")
    heading.append(answer.status.value.replace("_", " "), style=COLOURS[answer.status])
    parts: list[RenderableType] = []
    if answer.error is not None:
        heading.append(f": {answer.error}")
    elif answer.status is Status.ALREADY_TARGET:
        heading.append(f": it is '{report.target}' already, nothing needs to change")
    if answer.diagnosis is not None:
        parts.append(_diagnosis(answer.diagnosis))
    for number, found in enumerate(answer.counterfactuals, start=1):
        if len(answer.counterfactuals) > 1:
            parts.append(Text(f"answer {number} of {len(answer.counterfactuals)}", style="bold"))
        parts += _counterfactual(found, nearest=answer.status is Status.INFEASIBLE)
    return Group(heading, Padding(Group(*parts), (0, 0, 1, 2)))


def _diagnosis(diagnosis: Diagnosis) -> Text:
    best = f"{diagnosis.best_agreement:.0%}, {'verified' if diagnosis.verified else 'expected'}"
    return Text(f"No answer was found: the best agreement is {best}. {diagnosis.advice}")


def _counterfactual(found: Counterfactual, nearest: bool) -> list[RenderableType]:
    """The changes, then the figures; `nearest`: this is the best attempt, not an answer."""
    table = Table()
    for heading in ("feature", "now", "nearest attempt" if nearest else "change to"):
        table.add_column(heading)
    for change in found.changes:
        table.add_row(change.feature, _show(change.before), _show(change.after))
    figures = f"cost {found.cost:.2f}, expected agreement {found.expected_agreement:.0%}, {_place(found)}"
    parts: list[RenderableType] = [table] if found.changes else [Text("Nothing needs to change.")]
    parts += [Text(vote_sentence(found)), Text(figures)]
    if found.votes:
        parts.append(Text(_votes(found)))
    return parts


def _place(found: Counterfactual) -> str:
    """How it compares with real records of the target class."""
    share = "" if found.typicality is None else f" ({found.typicality:.0%} of those accepted are less typical)"
    return ("like real records" if found.trusted else "UNLIKE real records") + share


def _votes(found: Counterfactual) -> str:
    """Who accepts and who refuses, by name."""
    accepting = ", ".join(vote.model for vote in found.votes if vote.accepts is True) or "nobody"
    refusing = ", ".join(vote.model for vote in found.votes if vote.accepts is False) or "nobody"
    return f"accept: {accepting}; refuse: {refusing}"


def _show(value: Value) -> str:
    if value is None:
        return "missing"
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e5 else str(value)
