"""Where words go: stdout carries what was asked for, stderr carries progress, notes and complaints."""

from rich.console import Console
from rich.text import Text


def answers() -> Console:
    """stdout, made anew so that it follows a redirection."""
    return Console(highlight=False)


def notes() -> Console:
    """stderr."""
    return Console(stderr=True, highlight=False)


def complain(sentence: str) -> None:
    """One red sentence on stderr; unwrapped, so that a log or a test can find it."""
    notes().print(Text(sentence, style="red"), soft_wrap=True)
