"""Words of the user's own table are shown as they are."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest
from rich.table import Table

from app.commands.console import answers, notes

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
