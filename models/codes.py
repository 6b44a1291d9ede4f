"""Digits in a text: numbers, or codes whose leading zeros say something, as in a postcode."""

import re
from collections.abc import Sequence

import pandas as pd

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
