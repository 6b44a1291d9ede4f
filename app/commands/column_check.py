"""Text columns of a file that are numbers or dates to a person: as categories they would lose their order unseen."""

import json
import re
from collections import Counter
from collections.abc import Mapping

import pandas as pd

from models.errors import DataError
from models.frames import plain_values

LEAST_NUMBERS = 10
"""Fewer distinct numbers may well be categories, as in 0, 1, 2, 3+."""
LEAST_SHARE = 0.9

_PLAIN = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_WRITTEN = re.compile(r"\s*[-+]?[$€£¥]?\s*[-+]?\d+([,.'\s_]\d{3})*([.,]\d+)?\s*[%$€£¥]?\s*")
_DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))\s*")


def check_columns(frame: pd.DataFrame, label: str, overrides: Mapping[str, Mapping[str, object]]) -> None:
    """DataError for the first such column; the overrides may say of each what it is."""
    for name in frame.columns:
        if name != label and "kind" not in overrides.get(name, {}):
            _check_texts(name, plain_values(frame[name]))


def _check_texts(name: str, values: list[object]) -> None:
    counts = Counter(value for value in values if isinstance(value, str))
    if _share(_DATE, counts) >= LEAST_SHARE:
        raise DataError(f"Column '{name}' holds dates; replace it by a number, such as months ago, or {_say(name)}.")
    plain = {text for text in counts if _PLAIN.fullmatch(text)}
    if len(plain) == len(counts):
        return
    numbers = plain | {text for text in counts if _WRITTEN.fullmatch(text)}
    if len(numbers) < LEAST_NUMBERS or sum(counts[text] for text in numbers) < LEAST_SHARE * counts.total():
        return
    odd = next(value for value in values if isinstance(value, str) and value not in plain)
    row = values.index(odd) + 1
    mend = "write it as a plain number" if odd in numbers else "leave it empty if it is missing"
    raise DataError(f"Column '{name}' holds numbers, but {odd!r} in row {row}; {mend}, or {_say(name)}.")


def _share(pattern: re.Pattern[str], counts: Counter[str]) -> float:
    """Of the texts, those that fit; none of none."""
    return sum(count for text, count in counts.items() if pattern.fullmatch(text)) / max(1, counts.total())


def _say(name: str) -> str:
    wanted = json.dumps({"features": {name: {"kind": "categorical"}}}, ensure_ascii=False)
    return f"say with --schema that it is a category: {wanted}"
