"""Text columns of a file that are numbers or dates to a person: as categories they would lose their order unseen."""

import re
from collections import Counter
from collections.abc import Callable, Collection

import pandas as pd

from models.codes import is_code, is_plain_number
from models.errors import DataError
from models.frames import plain_values

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
