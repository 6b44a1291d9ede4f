"""Records as a person or a program writes them, and as one row of the record matrix; numpy only, no pandas.

Every value that enters the project passes through `parse_value`: record by record here, by column in frames.py.
"""

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..arrays import Records
from ..errors import RecordError
from .grid import plain, settle_value
from .schema import Feature, FeatureKind, Schema

Value: TypeAlias = str | int | float | None
"""A value as JSON has it: a category, a whole number, a number, or nothing."""

FLAGS = (bool, np.bool_)
NUMBERS = (int, float, np.integer, np.floating)
"""Concrete types: isinstance with numbers.Real takes ten times as long."""

_SHOWN_CATEGORIES = 12
MOST_NAMED = 20
"""One error names at most this many columns or faults."""
_brief = reprlib.Repr()
"""A value may be nested deeper than Python writes out."""
_brief.maxstring = _brief.maxother = 100


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a value is not allowed: the tail of a sentence that starts with where it stands."""

    reason: str


MISSING = Fault("has no value; the schema does not allow a missing one, so give it")


def category_text(value: object) -> str:
    """The name of a category. 3.0 and 3 are both "3": missing values in a column turn its whole numbers to floats."""
    if isinstance(value, str):
        return value
    if isinstance(value, FLAGS):
        return str(bool(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def is_missing(value: object) -> bool:
    """None and NaN are missing values; an empty text is not."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def parse_value(feature: Feature, value: object) -> float | Fault:
    """One value of the record matrix (a number, a category index or NaN), or what is wrong with it."""
    if is_missing(value):
        return math.nan if feature.nullable else MISSING
    return _parse_category(feature, value) if feature.is_categorical else _parse_number(feature, value)


def _parse_category(feature: Feature, value: object) -> float | Fault:
    if not isinstance(value, (str, *FLAGS, *NUMBERS)):
        return Fault(f"holds {_brief.repr(value)}, which is not a category")
    text = category_text(value)
    if text in feature.categories:
        return float(feature.categories.index(text))
    shown = ", ".join(feature.categories[:_SHOWN_CATEGORIES])
    more = len(feature.categories) - _SHOWN_CATEGORIES
    known = f"{shown} and {more} more" if more > 0 else shown
    return Fault(f"holds the unknown category {text!r}; its categories are {known}")


def _parse_number(feature: Feature, value: object) -> float | Fault:
    if isinstance(value, FLAGS) or not isinstance(value, NUMBERS):
        return Fault(f"holds {_brief.repr(value)}, which is not a number")
    try:
        number = float(value)
    except OverflowError:
        return Fault("holds a whole number of more than 300 digits, outside any bounds; send the right one")
    if not math.isfinite(number):
        return Fault(f"holds the infinite number {number}; send a finite one, or nothing if it is missing")
    if feature.kind is FeatureKind.INTEGER and not number.is_integer():
        return Fault(f"holds {plain(number)}, which is not a whole number")
    # Far outside of the bounds there is no grid, so a number is brought near them first.
    near = min(max(number, feature.least - feature.step), feature.most + feature.step)
    settled = settle_value(near, feature.step)
    if not feature.least <= settled <= feature.most:
        bounds = f"{plain(feature.least)} to {plain(feature.most)}"
        return Fault(f"holds {plain(number)}, outside its bounds {bounds}; widen them in the schema if it is right")
    return settled


def record_notices(schema: Schema, record: Records) -> tuple[str, ...]:
    """record (F,) -> a sentence for each number that lies beyond what the models were trained on

    The bounds lie on the grid of the step; what is seen off it may lie less than a step beyond them.
    """
    found = []
    for feature, value in zip(schema.features, record.tolist(), strict=True):
        below, above = feature.lower - feature.step, feature.upper + feature.step
        if not feature.is_categorical and not below < value < above and not math.isnan(value):
            usual = f"{plain(feature.lower)} to {plain(feature.upper)}"
            found.append(f"'{feature.name}' is {plain(value)}, beyond the {usual} of the training data: check it.")
    return tuple(found)


def check_names(schema: Schema, names: Iterable[str], what: str) -> None:
    """All features of the schema are there and nothing else, save the label; `what` is "record" or "frame"."""
    if faults := name_faults(schema, names, what):
        raise RecordError(" ".join(faults))


def name_faults(schema: Schema, names: Iterable[str], what: str) -> list[str]:
    """A sentence for the features that are not there, and one for what is no feature."""
    given, faults = set(names), list[str]()
    if absent := [name for name in schema.names if name not in given]:
        faults.append(f"The {what} has no {columns_text(absent)}; give every feature, empty where it is missing.")
    if extra := sorted(given - set(schema.names) - {schema.label}):
        faults.append(f"The {what} has the {columns_text(extra)}, which the schema does not know; leave it out.")
    return faults


def columns_text(names: Sequence[str]) -> str:
    """How a sentence names columns: "column 'age'", "columns 'age', 'sex' and 3 more"."""
    shown = ", ".join(f"'{name}'" for name in names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"column{'s' if len(names) > 1 else ''} {shown}{more}"


def check_record(schema: Schema, record: Mapping[str, object]) -> Records:
    """One record by feature name -> its row of the record matrix (1, F); RecordError with all that is wrong with it.

    >>> income = Feature("income", FeatureKind.NUMERIC, lower=0, upper=9000)
    >>> home = Feature("home", FeatureKind.CATEGORICAL, categories=("rent", "own"))
    >>> schema = Schema((income, home), "approved", ("no", "yes"))
    >>> check_record(schema, {"income": 2100, "home": "own"})
    array([[2.1e+03, 1.0e+00]])
    """
    row, faults, missing = np.empty((1, len(schema.features))), list[str](), list[str]()
    for position, feature in enumerate(schema.features):
        parsed = parse_value(feature, record[feature.name]) if feature.name in record else math.nan
        if parsed is MISSING:
            missing.append(feature.name)
        elif isinstance(parsed, Fault):
            faults.append(f"Column '{feature.name}' {parsed.reason}.")
        else:
            row[0, position] = parsed
    if missing:
        named = columns_text(missing)
        verb = "have" if len(missing) > 1 else "has"
        faults.insert(0, f"{named[0].upper()}{named[1:]} {verb} {MISSING.reason.removeprefix('has ')}.")
    if faults := [*name_faults(schema, record, "record"), *faults]:
        raise RecordError(one_text(faults))
    return row


def one_text(faults: Sequence[str]) -> str:
    """All that is wrong, a sentence each; of very many the first ones."""
    more = len(faults) - MOST_NAMED
    return " ".join(faults[:MOST_NAMED]) + (f" There are {more} more such faults." if more > 0 else "")


@dataclass(frozen=True, eq=False)
class ReadRecords:
    """What could be read: records (g, F), their places among the n given (g,), and what is wrong with others (n,)."""

    records: Records
    places: list[int]
    errors: list[str | None]

    def __len__(self) -> int:
        return len(self.errors)


def read_each(schema: Schema, records: Sequence[Mapping[str, object]]) -> ReadRecords:
    """Records by feature name, each checked by itself: a bad one is told apart from its neighbours."""
    rows, places = [np.empty((0, len(schema.features)))], list[int]()
    errors: list[str | None] = [None] * len(records)
    for place, record in enumerate(records):
        try:
            rows.append(check_record(schema, record))
            places.append(place)
        except RecordError as error:
            errors[place] = str(error)
    return ReadRecords(np.concatenate(rows), places, errors)


def from_records(schema: Schema, records: Records) -> list[dict[str, Value]]:
    """records (n, F) -> n records by feature name, as a person writes them; a missing value is None."""
    columns = [_column_values(feature, records[:, position]) for position, feature in enumerate(schema.features)]
    return [dict(zip(schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _column_values(feature: Feature, column: Records) -> list[Value]:
    """column (n,) -> n values"""
    if feature.is_categorical:
        return [None if math.isnan(value) else feature.categories[int(value)] for value in column.tolist()]
    if feature.kind is FeatureKind.INTEGER:
        return [None if math.isnan(value) else int(value) for value in column.tolist()]
    return [None if math.isnan(value) else value for value in column.tolist()]
