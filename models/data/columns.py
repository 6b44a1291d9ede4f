"""Columns that are not what they seem.

`check_columns` refuses texts that are numbers or dates to a person: as categories they would lose their order.
`inspect_columns` finds what no applicant could change, or must not: names of the rows, copies of the label, and codes
such as -999 that stand for a missing value. Whatever a schema's overrides say of a column wins.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..errors import DataError
from .frames import holds_numbers, is_code, is_plain_number, plain_values
from .grid import plain
from .records import category_text, one_text

LEAST_NUMBERS = 10
"""Fewer distinct numbers may well be categories, as in 0, 1, 2, 3+."""
LEAST_SHARE = 0.9
MOST_SHOWN = 100

_WRITTEN = re.compile(r"\s*[-+]?[$€£¥]?\s*[-+]?\d+([,.'\s_]\d{3})*([.,]\d+)?\s*[%$€£¥]?\s*")
_DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))\s*")


def check_columns(
    frame: pd.DataFrame,
    known: Collection[str | None],
    way_out: Callable[[str], str],
    read: Callable[[pd.DataFrame], object] | None = None,
) -> None:
    """DataError with all such columns that are not `known` for what they are; `way_out(name)` tells how to say so.

    read: what will be done with the frame; its DataError about the other columns is told in the same breath
    """
    found = {
        name: f"Column '{name}' holds {fault}, or {way_out(name)}."
        for name in map(str, frame.columns)
        if name not in known
        and isinstance(frame[name], pd.Series)
        and (fault := _find_fault(plain_values(frame[name])))
    }
    if not found:
        return
    faults = list(found.values())
    if read is not None and frame.columns.is_unique:
        try:
            read(frame.drop(columns=list(found)))
        except DataError as error:
            faults.append(str(error))
    raise DataError(one_text(faults))


def _find_fault(values: list[object]) -> str | None:
    """What the column holds, and how to correct it."""
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
    fix = "write it as a plain number" if re.search(r"\d", odd) else "leave it empty if it is missing"
    return f"numbers, but {odd[:MOST_SHOWN]!r} in row {values.index(odd) + 1}; {fix}"


def _share(pattern: re.Pattern[str], counts: Counter[str]) -> float:
    """Of the texts, those that fit; none of none."""
    return sum(count for text, count in counts.items() if pattern.fullmatch(text)) / max(1, counts.total())


LEAST_ROWS = 100
"""In fewer rows, consecutive numbers or a column that agrees with the label may be chance."""
DENSE = 1.05
"""Different whole numbers count the rows if they span at most this many times their number."""
COPIES = 0.98
"""A copy of the label predicts this share of the rows that the label's base rate leaves open."""
MOST_COPIED = 20
CODES = frozenset(-int(digit * length) for digit in "789" for length in range(1, 10))
"""Codes for a missing value in a column whose other numbers are not negative."""
LARGE_CODES = frozenset(int("9" * length) for length in range(3, 10))
FAR = 2.0
"""A large code is at least this many times the greatest of the other values."""

NAMED = 0.9
"""Of the rows that a column names by what it is called, so many are different: an applicant may come again."""

_ID_WORDS = frozenset(
    {
        *("id", "uuid", "guid", "nr", "no", "nummer", "number", "num", "ref", "reference", "key", "custid", "loanid"),
        *("customerid", "clientid", "userid", "memberid", "identifiant", "identificador", "numero", "numéro", "codice"),
    }
)
_ID_ENDINGS = ("nummer", "nr")


@dataclass(frozen=True)
class Inspection:
    """left_out: columns with the sentence why; codes: sentences that refuse a training; notices: what else to know."""

    left_out: Mapping[str, str]
    codes: Mapping[str, str]
    notices: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        """All of it, for an upload, which refuses none of it."""
        return [*self.left_out.values(), *self.codes.values(), *self.notices]


def inspect_columns(frame: pd.DataFrame, label: str | None, said: Mapping[str, Collection[str]]) -> Inspection:
    """What the frame's columns seem to be; `said`: the columns that the user spoke of, and what was set of each."""
    left_out, codes, notices = dict[str, str](), dict[str, str](), list[str]()
    labels = None if label is None else _texts(frame[label])
    for name in frame.columns:
        if name == label:
            continue
        if name not in said and (why := _why_left_out(name, frame[name], labels)):
            keep = f'{{"features": {{"{name}": {{"immutable": true}}}}}}'
            left_out[name] = f"Column '{name}' {why}: it is left out. To keep it, name it in the overrides, as {keep}."
            continue
        if labels is not None and name not in said and (share := _told_alone(frame[name], labels)) >= COPIES:
            notices.append(
                f"Column '{name}' alone tells the label in {share:.1%} of the rows that it could. If it is known only "
                "after the decision, leave it out of the table."
            )
        if not {"lower", "least", "upper", "most"} & set(said.get(name, ())):
            _find_codes(name, frame[name], codes, notices)
    return Inspection(left_out, codes, tuple(notices))


def _why_left_out(name: str, series: pd.Series, labels: list[str] | None) -> str | None:
    if len(series) < LEAST_ROWS:
        return None
    if _names_rows(name, series):
        return "names the rows, so it says nothing of the next applicant"
    if labels is not None and (share := _copied(series, labels)) >= COPIES:
        return f"copies the label in {share:.1%} of the rows that it could, so it is known only after the decision"
    return None


def _names_rows(name: str, series: pd.Series) -> bool:
    """Different in each row, and a text, or whole numbers that are called an id or count the rows."""
    if series.isna().any():
        return False
    if not holds_numbers(series):
        texts = series.is_unique and all(isinstance(value, str) for value in series)
        return texts and _find_fault(series.tolist()) is None
    numbers = series.to_numpy(dtype=np.float64)
    if not (np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all()):
        return False
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-zà-ÿ])|[A-Z]?[a-zà-ÿ]+", name)]
    if words and (words[0] in ("id", "uuid") or words[-1] in _ID_WORDS or words[-1].endswith(_ID_ENDINGS)):
        return series.nunique() >= NAMED * len(numbers)
    return series.is_unique and float(np.ptp(numbers)) < DENSE * len(numbers)


def _copied(series: pd.Series, labels: list[str]) -> float:
    """Of the rows that the most common class leaves open, the share that the column's values settle; of many values,
    that they are there or missing."""
    many = series.nunique(dropna=False) > MOST_COPIED
    values = list(map(str, series.isna())) if many else _texts(series)
    pairs = Counter(zip(values, labels, strict=True))
    best: dict[Hashable, int] = {}
    for (value, _), count in pairs.items():
        best[value] = max(best.get(value, 0), count)
    base = Counter(labels).most_common(1)[0][1]
    return (sum(best.values()) - base) / max(1, len(labels) - base)


def _told_alone(series: pd.Series, labels: list[str]) -> float:
    """The same for a column of many numbers and one bound, below and above which it settles the label."""
    classes, codes = np.unique(labels, return_inverse=True)
    if len(series) < LEAST_ROWS or len(classes) > MOST_COPIED or not holds_numbers(series) or series.isna().any():
        return 0.0
    numbers = series.to_numpy(dtype=np.float64)
    order = np.argsort(numbers, kind="stable")
    below = np.cumsum(np.eye(len(classes))[codes[order]], axis=0)
    settled = below.max(axis=1) + (below[-1] - below).max(axis=1)
    bound = np.append(np.diff(numbers[order]) > 0, False)
    base = below[-1].max()
    return float((settled[bound].max(initial=base) - base) / max(1, len(labels) - base))


def _texts(series: pd.Series) -> list[str]:
    return ["" if value is None else category_text(value) for value in plain_values(series)]


def _find_codes(name: str, series: pd.Series, codes: dict[str, str], notices: list[str]) -> None:
    if not holds_numbers(series):
        return
    values, counts = np.unique(series.dropna().to_numpy(dtype=np.float64), return_counts=True)
    if len(values) < LEAST_NUMBERS:
        return
    below = values < 0
    if below.any() and set(values[below].tolist()) <= CODES and counts[below].sum() < counts.sum() / 2:
        listed, rows = ", ".join(map(plain, values[below].tolist())), int(counts[below].sum())
        other = "{" + f'"features": {{"{name}": {{"lower": {plain(float(values[0]))}}}}}' + "}"
        codes[name] = (
            f"Column '{name}' holds {listed} in {rows} rows and no other number below 0, which looks like a code for a "
            f"missing value: leave those cells empty. If they are numbers, say so in the overrides: {other}."
        )
    elif -values[0] in LARGE_CODES and values[0] <= FAR * values[1] and counts[0] > 1:
        notices.append(
            f"Column '{name}' holds {plain(float(values[0]))} in {int(counts[0])} rows, far below its other values "
            f"(from {plain(float(values[1]))}): if it stands for a missing value, leave those cells empty."
        )
    elif values[-1] in LARGE_CODES and values[-1] >= FAR * values[-2] and counts[-1] > 1:
        notices.append(
            f"Column '{name}' holds {plain(float(values[-1]))} in {int(counts[-1])} rows, far above its other values "
            f"(up to {plain(float(values[-2]))}): if it stands for a missing value, leave those cells empty."
        )
