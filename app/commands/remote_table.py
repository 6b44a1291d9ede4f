"""A service's answers for a person: what to change, and who would agree."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from recourse_client.types import Answer, Counterfactual, Explanation

COLOURS = {"robust": "green", "already_target": "green", "valid": "yellow"}


def answer_table(answer: Answer) -> RenderableType:
    """One block a record, and a line for all of them."""
    blocks = [_block(row, one) for row, one in enumerate(answer.explanations, start=1)]
    last = f"{len(blocks)} records, {answer.queries} queries; {answer.model}, version {answer.version}."
    return Group(*blocks, Text(last))


def _block(row: int, one: Explanation) -> RenderableType:
    heading = Text(f"Applicant {row}: ", style="bold")
    heading.append(one.status.replace("_", " "), style=COLOURS.get(one.status, "red"))
    parts: list[RenderableType] = []
    if one.error is not None:
        parts.append(Text(one.error))
    if one.diagnosis is not None:
        parts.append(Text(f"The best agreement found is {one.diagnosis.best_agreement:.0%}. {one.diagnosis.advice}"))
    for found in one.counterfactuals:
        parts += _way(found)
    return Group(heading, Padding(Group(*parts), (0, 0, 1, 2)))


def _way(found: Counterfactual) -> list[RenderableType]:
    parts: list[RenderableType] = [Text("Nothing needs to change.")]
    if found.changes:
        table = Table("what", "now", "change to")
        for change in found.changes:
            table.add_row(change.feature, _shown(change.before), _shown(change.after))
        parts = [table]
    if not found.votes:
        return [*parts, Text(f"Not asked; {found.expected_agreement:.0%} of the models are expected to accept.")]
    accept = [vote.model for vote in found.votes if vote.accepts]
    refuse = [vote.model for vote in found.votes if vote.accepts is False]
    return [*parts, Text(f"accept: {', '.join(accept) or 'nobody'}; refuse: {', '.join(refuse) or 'nobody'}")]


def _shown(value: object) -> str:
    return "missing" if value is None else str(value)
