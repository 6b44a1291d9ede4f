"""pandas frames as record matrices (n, F) and class codes (n,), and which texts of a column are numbers.

A text of digits is a number or a code: in a code, such as a postcode, the leading zeros say something.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import Records
from ..errors import RecordError
from .grid import settle
from .records import Fault, category_text, check_names, one_text, parse_value
from .schema import Feature, FeatureKind, Schema

MISSING_TEXTS = (
    *("", "NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "#N/A N/A", "NULL", "null", "NaN", "nan", "-NaN", "-nan"),
    *("1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"),
)
"""Texts that mean a missing value in a CSV. `None` is not among them: "guarantors: None" is a value."""


def to_records(schema: Schema, frame: pd.DataFrame) -> Records:
    """frame with one column a feature (in any order, the label may be there) -> records (n, F)"""
    if repeated := frame.columns[frame.columns.duplicated()].tolist():
        raise RecordError(f"The frame has the column '{repeated[0]}' twice; leave one of them out.")
    check_names(schema, [str(name) for name in frame.columns], "frame")
    records, faults = np.empty((len(frame), len(schema.features))), list[str]()
    for position, feature in enumerate(schema.features):
        parsed = _parse_column(feature, frame[feature.name])
        if isinstance(parsed, str):
            faults.append(parsed)
        else:
            records[:, position] = parsed
    if faults:
        raise RecordError(one_text(faults))
    return records


def labels_to_codes(schema: Schema, labels: pd.Series) -> NDArray[np.int64]:
    """labels (n,) of any dtype -> the index of each one's class (n,)"""
    code_of = {name: code for code, name in enumerate(schema.classes)}
    codes = np.empty(len(labels), dtype=np.int64)
    for row, value in enumerate(plain_values(labels)):
        code = code_of.get(category_text(value))
        if value is None or code is None:
            known, found = ", ".join(schema.classes), "missing" if value is None else repr(value)
            raise RecordError(f"Row {row + 1}, label '{schema.label}' is {found}; the classes are {known}.")
        codes[row] = code
    return codes


def with_floats(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn decimals, as databases keep money, into floats; pandas leaves them as objects.

    A number in single precision is the shortest decimal that it may stand for: 19.99, and not 19.989999771118164.
    """
    decimals = [name for name in frame.columns if pd.api.types.infer_dtype(frame[name]) == "decimal"]
    singles = [name for name in frame.columns if frame[name].dtype == np.float32]
    shortest = {name: frame[name].astype(str).astype("float64") for name in singles}
    return frame.astype(dict.fromkeys(decimals, "float64")).assign(**shortest)


def plain_values(series: pd.Series) -> list[object]:
    """series (n,) -> n Python values; None where pandas sees a missing one"""
    return series.astype(object).where(series.notna(), None).tolist()


def _parse_column(feature: Feature, series: pd.Series) -> NDArray[np.float64] | str:
    """series (n,) -> column (n,) of the record matrix, or what is wrong with it"""
    if not feature.is_categorical and holds_numbers(series := written_numbers(series)):
        return _parse_numbers(feature, series.to_numpy(dtype=np.float64, na_value=np.nan))
    column = np.empty(len(series))
    for row, value in enumerate(plain_values(series)):
        parsed = parse_value(feature, value)
        if isinstance(parsed, Fault):
            return _told(feature, parsed, row)
        column[row] = parsed
    return column


def holds_numbers(series: pd.Series) -> bool:
    """Whether the column is of a number type; pandas counts truth values as numbers, this project as categories."""
    return pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype)


def _parse_numbers(feature: Feature, values: NDArray[np.float64]) -> NDArray[np.float64] | str:
    """`parse_value` for a whole column (n,): the fast path checks it at once, the slow one words the first fault."""
    near = np.clip(values, feature.least - feature.step, feature.most + feature.step)
    settled = settle(near, feature.step)
    wrong = (settled < feature.least) | (settled > feature.most)
    if not feature.nullable:
        wrong |= np.isnan(values)
    if feature.kind is FeatureKind.INTEGER:
        wrong |= ~np.isnan(values) & (values != np.rint(values))
    if wrong.any():
        row = int(np.argmax(wrong))
        result = parse_value(feature, float(values[row]))
        assert isinstance(result, Fault)
        return _told(feature, result, row)
    return settled


def _told(feature: Feature, fault: Fault, row: int) -> str:
    return f"Row {row + 1}, column '{feature.name}' {fault.reason}."


_CODE = re.compile(r"\s*0[0-9]+\s*")
_PLAIN = re.compile(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*")


def is_code(text: str) -> bool:
    """007 and 00 are codes; 0, 0.5, 7 and 007.5 are numbers."""
    return _CODE.fullmatch(text) is not None


def is_plain_number(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None


def code_positions(row: Sequence[str]) -> set[int]:
    """Where in a row of a CSV the codes stand: their columns are texts, which pandas would take for numbers."""
    # Millions of values pass here: most are told by their first letter.
    return {position for position, text in enumerate(row) if text[:1] in "0 \t" and is_code(text)}


def written_numbers(series: pd.Series) -> pd.Series:
    """A column (n,) of texts that are all plain numbers, as numbers (n,); any other as it is."""
    if pd.api.types.is_numeric_dtype(series.dtype):
        return series
    plain = all(isinstance(value, str) and is_plain_number(value) for value in series.dropna())
    return pd.to_numeric(series) if plain else series
