"""Words of the user's own table are shown as they are."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest
from rich.table import Table

from app.commands.console import answers, notes
from app.commands.explain import Report, report_table
from app.explain.contract import ExplainOptions
from recourse_client.types import Finding

NAMES = ["[/b]", "[red]debt", ":car:"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_no_markup(name: str) -> None:
    table = Table("feature")
    table.add_row(name)
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        answers().print(table)
        notes().print(name)
    assert name in out.getvalue()
    assert name in err.getvalue()


def test_a_model_that_did_not_answer_is_one_of_those_that_do_not_accept() -> None:
    """As in `agreement`: "2 of 2 models accept" would leave it out."""
    votes = [{"model": name, "accepts": accepts} for name, accepts in (("a", True), ("b", True), ("c", None))]
    way = {
        "record": {"income": 2},
        "changes": [{"feature": "income", "from": 1, "to": 2}],
        "cost": 1.0,
        "density": 0.0,
        "trusted": True,
        "expected_agreement": 0.7,
        "votes": votes,
        "agreement": 2 / 3,
        "lower_bound": 0.3,
    }
    finding = Finding.model_validate(
        {"status": "valid", "error": None, "queries": 1, "diagnosis": None, "counterfactuals": [way]}
    )
    with redirect_stdout(StringIO()) as out:
        answers().print(report_table(Report("loans", ExplainOptions(target="approved"), [finding], 1)))
    assert "2 of 3 models accept. No answer from c." in out.getvalue()
