"""Where words go: stdout carries what was asked for, stderr carries progress, notes and complaints.

Names come from the user's table: "[/b]" and ":car:" are shown as they are, not taken for markup.
"""

from rich.console import Console
from rich.text import Text


def answers() -> Console:
    """stdout, made anew so that it follows a redirection."""
    return Console(highlight=False, markup=False, emoji=False)


def notes() -> Console:
    """stderr."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def complain(sentence: str) -> None:
    """One red sentence on stderr; unwrapped, so that a log or a test can find it."""
    notes().print(Text(sentence, style="red"), soft_wrap=True)
