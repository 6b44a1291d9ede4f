"""Runs `recourse` in this process, as a shell would see it."""

import os
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO

import pytest

from app.cli import main


@dataclass(frozen=True)
class Outcome:
    """What a shell sees."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one sentence of a refusal: exit code 2, nothing on stdout, one line on stderr, no traceback."""
        lines = self.err.splitlines()
        assert (self.code, self.out, len(lines)) == (2, "", 1), self
        assert lines[0].endswith("."), self
        return lines[0]


def recourse(*arguments: object) -> Outcome:
    """`recourse ARGUMENTS`"""
    umask = os.umask(0o022)
    os.umask(umask)
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err, pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    os.umask(umask)  # A command that works in VAR_DIR has narrowed it for its process.
    code = end.value.code
    assert code is None or isinstance(code, int)
    return Outcome(code or 0, out.getvalue(), err.getvalue())
