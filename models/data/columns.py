"""What a column is, by its texts or by its name.

`check_columns` finds texts that are numbers or dates to a person: as categories they would lose their order unnoticed.
`protected_kind` finds names of protected attributes, which nobody may be advised to change, whatever the models say. A
name is weak evidence, so this is a default that the user is told of and can lift, not a legal opinion.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection
from itertools import pairwise

import pandas as pd

from ..errors import DataError
from .frames import is_code, is_plain_number, plain_values

LEAST_NUMBERS = 10
"""Fewer distinct numbers may well be categories, as in 0, 1, 2, 3+."""
LEAST_SHARE = 0.9
MOST_SHOWN = 100

_WRITTEN = re.compile(r"\s*[-+]?[$€£¥]?\s*[-+]?\d+([,.'\s_]\d{3})*([.,]\d+)?\s*[%$€£¥]?\s*")
_DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))\s*")


def check_columns(frame: pd.DataFrame, known: Collection[str | None], way_out: Callable[[str], str]) -> None:
    """DataError for the first such column that is not `known` for what it is; `way_out(name)` tells how to say so."""
    for name in frame.columns:
        if name not in known and (fault := _find_fault(plain_values(frame[name]))):
            raise DataError(f"Column '{name}' holds {fault}, or {way_out(name)}.")


def _find_fault(values: list[object]) -> str | None:
    """What the column holds, and how to mend that."""
    counts = Counter(value for value in values if isinstance(value, str))
    if _share(_DATE, counts) >= LEAST_SHARE:
        return "dates; replace it by a number, such as months ago"
    plain = {text for text in counts if is_plain_number(text)}
    if len(plain) == len(counts) or any(map(is_code, counts)):
        return None
    numbers = plain | {text for text in counts if _WRITTEN.fullmatch(text)}
    if len(numbers) < LEAST_NUMBERS or sum(counts[text] for text in numbers) < LEAST_SHARE * counts.total():
        return None
    odd = next(value for value in values if isinstance(value, str) and value not in plain)
    mend = "write it as a plain number" if re.search(r"\d", odd) else "leave it empty if it is missing"
    return f"numbers, but {odd[:MOST_SHOWN]!r} in row {values.index(odd) + 1}; {mend}"


def _share(pattern: re.Pattern[str], counts: Counter[str]) -> float:
    """Of the texts, those that fit; none of none."""
    return sum(count for text, count in counts.items() if pattern.fullmatch(text)) / max(1, counts.total())


KINDS = {
    "age": ("age", "birth", "birthdate", "birthday", "birthyear", "dob", "elderly"),
    "sex": ("sex", "gender", "male", "female", "pregnancy", "pregnant", "sexual"),
    "race or ethnicity": ("race", "racial", "ethnicity", "ethnic", "skin"),
    "origin": ("nationality", "citizenship", "citizen", "native", "foreign", "immigrant", "birthplace"),
    "religion": ("religion", "religious"),
    "family": ("marital", "married", "marriage", "divorced", "widowed", "children", "dependents", "dependants"),
    "disability": ("disability", "disabled", "handicap"),
}
PAIRS = {("family", "status"): "family", ("personal", "status"): "family", ("national", "origin"): "origin"}
AGEING = {
    *("account", "accounts", "building", "business", "car", "card", "cards", "company", "credit", "debt", "employment"),
    *("file", "history", "home", "house", "job", "line", "loan", "mortgage", "property", "trade", "trades", "vehicle"),
}
"""Things with an age of their own: `account_age` is not the applicant's."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_KIND_OF = {word: kind for kind, words in KINDS.items() for word in words}


def protected_kind(name: str) -> str | None:
    """What a column of this name would say of a person, as 'age' or 'sex'; None if nothing that is protected."""
    words = [word.lower() for word in _WORD.findall(name)]
    for pair in pairwise(words):
        if pair in PAIRS:
            return PAIRS[pair]
    for word in words:
        if word == "age" and not AGEING.isdisjoint(words):
            continue
        if word in _KIND_OF:
            return _KIND_OF[word]
    return None


def protected_notice(name: str, kind: str) -> str:
    """What the owner of a table is told of such a column."""
    lift = f'{{"features": {{"{name}": {{"protected": false}}}}}}'
    return (
        f"Column '{name}' looks like a protected attribute ({kind}): it is never suggested as something to change. "
        f"If it is none, say so in the schema's overrides: {lift}."
    )
