"""Values in the words of people: numbers with separators, days, names of features, what a status means."""

from collections.abc import Callable
from datetime import datetime

STATUS_WORDS = {
    "robust": "Checked: enough of the lender's models accept",
    "valid": "Likely, but not confirmed for as many models as asked",
    "already_target": "Nothing needs to change",
    "infeasible": "No change within these limits is enough",
    "error": "The record could not be read",
}


def plain_name(name: str) -> str:
    """credit_history_months -> Credit history months"""
    words = name.replace("_", " ").replace(".", " ").strip()
    return words[:1].upper() + words[1:]


def plain_value(value: object) -> str:
    """A feature's value as its owner writes it; a missing one is said to be."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.10g}" if value != int(value) else f"{int(value):,}"
    return str(value)


def percent(value: float | None) -> str:
    return "not asked" if value is None else f"{100 * value:.0f}%"


def day_and_time(value: datetime) -> str:
    return value.strftime("%-d %B %Y, %H:%M UTC")


def status_word(status: str) -> str:
    return STATUS_WORDS.get(status, status)


FILTERS: dict[str, Callable[..., str]] = {
    "plain_name": plain_name,
    "plain_value": plain_value,
    "percent": percent,
    "day_and_time": day_and_time,
    "status_word": status_word,
}
