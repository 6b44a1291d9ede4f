"""A schema from a training frame: kinds, bounds, steps and classes, and one clear error for each way to be unfit.

A column that seems to be a protected attribute (models/data/protected.py) is one, until an override lifts it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, SchemaError
from .frames import holds_numbers, is_code, plain_values, written_numbers
from .grid import MOST_STEPS, settle, snap, snap_down, snap_up, snap_value
from .orders import obvious_order
from .protected import protected_of
from .records import FLAGS, NUMBERS, category_text, one_text
from .schema import Feature, FeatureKind, Schema, override_table

MOST_CATEGORIES = 200
LEAST_CLASS_ROWS = 5
MOST_DECIMALS = 6
LARGEST_NUMBER = 1e100
"""The square of a number must be finite, because its standard deviation is."""
HEADROOM = 10.0
"""A number may lie this many ranges of the training data beyond them; one further off is in another unit."""
NEARLY_ALL = 0.98
"""The share of the values other than zero (which lies on every grid) that must lie on the grid of a step."""
MOST_DIFFERENT = 2 / 3
LEAST_ON_GRID = 3
RARE = 1000.0
"""A step counts where values that know nothing of it would lie on its grid less often than once in so many times."""
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


MOST_CHANGES = 4
SMALLEST_SHARE = 0.02


def infer_schema(
    frame: pd.DataFrame, label: str, overrides: Mapping[str, object] | None = None, for_advice: bool = False
) -> Schema:
    """The schema of a training frame; `overrides` as in `Schema.with_overrides`, which here may also set a kind.

    for_advice: answers are given to people, so they change MOST_CHANGES features at the most, and no number by less
    than SMALLEST_SHARE of its interquartile range, unless an override says otherwise

    >>> few = pd.DataFrame({"income": [2000, 2100, 3500], "sex": ["f", "m", "f"], "paid": ["no", "yes", "yes"]})
    >>> frame = pd.concat([few] * 20, ignore_index=True)
    >>> schema = infer_schema(frame, label="paid")
    >>> [(feature.name, feature.kind.value, feature.protected) for feature in schema.features], schema.classes
    ([('income', 'integer', False), ('sex', 'categorical', True)], ('no', 'yes'))
    """
    _check_shape(frame, label)
    table = override_table(overrides or {})
    faults, classes = list[str](), tuple[str, ...]()
    try:
        classes = infer_classes(frame[label], label)
    except DataError as error:
        faults.append(str(error))
    features = _infer_all(frame, [name for name in frame.columns if name != label], table, faults)
    inferred = Schema(features, label, classes)
    if for_advice:
        worth = tuple(replace(each, smallest=_smallest_change(each, frame[each.name])) for each in features)
        inferred = Schema(worth, label, classes, MOST_CHANGES)
    rest = {name: {key: value for key, value in changes.items() if key != "kind"} for name, changes in table.items()}
    limit = {key: value for key, value in (overrides or {}).items() if key == "max_changes"}
    return inferred.with_overrides({"features": rest, **limit})


def _smallest_change(feature: Feature, values: pd.Series) -> float:
    """0 where a step of the number is worth making"""
    if feature.is_categorical:
        return 0.0
    low, high = np.nanquantile(pd.to_numeric(values, errors="coerce").to_numpy(np.float64), (0.25, 0.75))
    worth = snap_value(float(SMALLEST_SHARE * (high - low)), feature.step)
    return worth if worth > feature.step else 0.0


def infer_features(frame: pd.DataFrame, overrides: Mapping[str, object] | None = None) -> tuple[Feature, ...]:
    """What each column would be as a feature, before anybody has said which is the label; overrides set kinds only."""
    if frame.empty:
        raise DataError(f"The frame is empty: it has {len(frame)} rows and {len(frame.columns)} columns.")
    return _infer_all(frame, list(frame.columns), override_table(overrides or {}), [])


def _infer_all(
    frame: pd.DataFrame, names: list[str], table: Mapping[str, Mapping[str, object]], faults: list[str]
) -> tuple[Feature, ...]:
    """DataError with all that is wrong with the columns, after the faults that are known."""
    if unknown := sorted(set(table) - set(names)):
        known = ", ".join(map(str, names))
        raise SchemaError(f"The overrides name '{unknown[0]}', which is no feature; the features are {known}.")
    features = []
    for name in names:
        try:
            features.append(_infer_feature(str(name), frame[name], table.get(name, {}).get("kind")))
        except DataError as error:
            faults.append(str(error))
    if faults:
        raise DataError(one_text(faults))
    return tuple(features)


def infer_classes(labels: pd.Series, label: str) -> tuple[str, ...]:
    """The classes of the label column (n,), sorted naturally."""
    missing = labels.isna().to_numpy()
    if missing.any():
        first, count = int(np.argmax(missing)) + 1, int(missing.sum())
        raise DataError(f"Label '{label}' is missing in {count} rows, the first of them row {first}; drop those rows.")
    counts = pd.Series([category_text(value) for value in plain_values(labels)]).value_counts()
    _check_spaces(f"Label '{label}'", counts.index.tolist())
    if len(counts) < 2:
        raise DataError(f"Label '{label}' has only one class, '{counts.index[0]}'; two or more are needed.")
    if counts.min() < LEAST_CLASS_ROWS:
        fact = f"has {int(counts.min())} of the {LEAST_CLASS_ROWS} rows that a class needs"
        raise DataError(f"Class '{counts.idxmin()}' of label '{label}' {fact}; add rows or merge it with another.")
    return sort_naturally(counts.index.tolist())


def sort_naturally(texts: list[str]) -> tuple[str, ...]:
    """By number if all of them are numbers, else by letter."""
    try:
        numbers = {text: float(text) for text in texts}
    except ValueError:
        return tuple(sorted(texts))
    if not all(math.isfinite(number) for number in numbers.values()):
        return tuple(sorted(texts))
    return tuple(sorted(texts, key=lambda text: (numbers[text], text)))


def _check_shape(frame: pd.DataFrame, label: str) -> None:
    if frame.empty:
        raise DataError(f"The frame is empty: it has {len(frame)} rows and {len(frame.columns)} columns.")
    if odd := [name for name in frame.columns if not isinstance(name, str)]:
        raise DataError(f"The column name {odd[0]!r} is not text; name every column.")
    if repeated := frame.columns[frame.columns.duplicated()].tolist():
        raise DataError(f"The frame has the column '{repeated[0]}' twice; rename or drop one of them.")
    if label not in frame.columns:
        raise DataError(f"There is no label column '{label}'; the columns are {', '.join(frame.columns)}.")
    if len(frame.columns) < 2:
        raise DataError(f"The frame has no column besides the label '{label}'; add the features.")


def _infer_feature(name: str, series: pd.Series, kind: object) -> Feature:
    feature = _infer_values(name, series, kind)
    return replace(feature, protected=protected_of(feature) is not None)


def _infer_values(name: str, series: pd.Series, kind: object) -> Feature:
    _check_column(name, series)
    if kind is not None and kind not in list(FeatureKind):
        raise SchemaError(f"Feature '{name}' cannot be of kind {kind!r}; the kinds are {', '.join(FeatureKind)}.")
    if kind == FeatureKind.CATEGORICAL or (kind is None and not holds_numbers(series)):
        return _infer_categorical(name, series)
    numbers = _numbers(name, series)
    whole = bool((numbers == np.rint(numbers)).all())
    if kind == FeatureKind.INTEGER and not whole:
        broken = numbers[numbers != np.rint(numbers)][0]
        raise SchemaError(f"Feature '{name}' cannot be an integer, because it holds {broken}.")
    inferred = FeatureKind.INTEGER if whole and kind != FeatureKind.NUMERIC else FeatureKind.NUMERIC
    return _infer_numeric(name, numbers, inferred, nullable=bool(series.isna().any()))


def _check_column(name: str, series: pd.Series) -> None:
    """Refuse values that are neither numbers nor categories."""
    present = series.dropna()
    if present.empty:
        raise DataError(f"Column '{name}' holds no value at all; drop it.")
    if not holds_numbers(series):
        _check_objects(name, present)
    if present.nunique() < 2:
        hint = "drop it" if len(present) == len(series) else "drop it, or name the missing values too"
        raise DataError(f"Column '{name}' holds one value only, '{category_text(present.iloc[0])}'; {hint}.")


def _check_objects(name: str, present: pd.Series) -> None:
    content = pd.api.types.infer_dtype(present)
    if content in {"date", "datetime", "datetime64", "period"}:
        raise DataError(f"Column '{name}' holds dates; replace it by a number, such as months ago, or drop it.")
    if content in {"timedelta", "timedelta64"}:
        raise DataError(f"Column '{name}' holds time spans; replace it by a number, such as days, or drop it.")
    for value in plain_values(present):
        if not isinstance(value, (str, *FLAGS, *NUMBERS)):
            raise DataError(f"Column '{name}' holds {value!r}, neither a number nor text; convert or drop it.")


def _infer_categorical(name: str, series: pd.Series) -> Feature:
    distinct = {category_text(value) for value in plain_values(series.dropna())}
    count = len(distinct)
    if count > MOST_CATEGORIES or count == len(series) > LEAST_CLASS_ROWS:
        raise DataError(
            f"Column '{name}' has {count} categories in {len(series)} rows, more than {MOST_CATEGORIES} "
            f"or one a row; drop it if it names the rows, else merge its categories{_code_hint(distinct)}."
        )
    _check_spaces(f"Column '{name}'", distinct)
    categories, ordered = sort_naturally(list(distinct)), False
    order = obvious_order(categories)
    if isinstance(series.dtype, pd.CategoricalDtype) and series.dtype.ordered:
        listed = [category_text(value) for value in series.cat.categories]
        categories, ordered, order = tuple(text for text in listed if text in distinct), True, ()
    nullable = bool(series.isna().any())
    return Feature(
        name, FeatureKind.CATEGORICAL, categories=categories, ordered=ordered, nullable=nullable, order=order
    )


def _code_hint(texts: Iterable[str]) -> str:
    code = min(filter(is_code, texts), default=None)
    return "" if code is None else f"; if it is a number, write it without leading zeros, unlike {code!r}"


def _check_spaces(owner: str, texts: Iterable[str]) -> None:
    """A person sees one category where "rent" and "rent " are two."""
    seen: dict[str, str] = {}
    for text in sorted(texts):
        other = seen.setdefault(" ".join(text.split()), text)
        if other != text:
            raise DataError(f"{owner} holds {other!r} and {text!r}, which differ only in spaces; write both the same.")


def _numbers(name: str, series: pd.Series) -> NDArray[np.float64]:
    """series (n,) -> its values that are there (at most n,), all finite"""
    series = written_numbers(series)
    for value in [] if holds_numbers(series) else plain_values(series.dropna()):
        if not isinstance(value, NUMBERS) or isinstance(value, FLAGS):
            raise SchemaError(f"Feature '{name}' cannot be a number, because it holds {value!r}; convert it first.")
    column: NDArray[np.float64] = series.to_numpy(dtype=np.float64, na_value=np.nan)
    numbers = column[~np.isnan(column)]
    if not np.isfinite(numbers).all():
        row = int(np.argmax(np.isinf(column))) + 1
        raise DataError(f"Column '{name}' holds an infinite number in row {row}; replace it or leave it empty.")
    if np.abs(numbers).max() > LARGEST_NUMBER:
        raise DataError(f"Column '{name}' reaches {np.abs(numbers).max():.3g}, beyond {LARGEST_NUMBER:g}; rescale it.")
    return numbers


def _infer_numeric(name: str, numbers: NDArray[np.float64], kind: FeatureKind, nullable: bool) -> Feature:
    if np.ptp(numbers) < 1 / LARGEST_NUMBER:
        raise DataError(f"Column '{name}' varies only by {np.ptp(numbers):.3g}; rescale or drop it.")
    least, most = float(numbers.min()), float(numbers.max())
    beyond_grid = kind is FeatureKind.INTEGER and max(-least, most) > MOST_STEPS
    step = 1.0 if beyond_grid else infer_step(numbers)
    lower, upper = _suggested(least, most, step)
    largest = max(abs(lower), abs(upper))
    if largest > MOST_STEPS * step:
        raise DataError(f"Column '{name}' reaches {largest:.3g}, too large for its step {step:g}; rescale or drop it.")
    if lower >= upper:
        spread = f"{np.ptp(numbers):.3g} around {numbers[0]}"
        raise DataError(f"Column '{name}' varies only by {spread}; subtract that number or drop the column.")
    if step > (usual := _usual_spread(numbers)) and not np.array_equal(snap(numbers, step), numbers):
        lost = f"beside which its other values, usually at most {usual:.3g} apart, vanish"
        raise DataError(f"Column '{name}' reaches {largest:.3g}, {lost}; correct or drop that row.")
    room, reach = HEADROOM * (upper - lower), MOST_STEPS * step
    least = min(least, 0.0 if least >= 0 else max(snap_value(lower - room, step), -reach))
    most = max(most, 0.0 if most <= 0 else min(snap_value(upper + room, step), reach))
    return Feature(name, kind, lower, upper, step, nullable=nullable, least=least, most=most)


def _suggested(least: float, most: float, step: float) -> tuple[float, float]:
    """The outermost values on the grid that lie between those seen; where there are none, the nearest."""
    lower, upper = snap_up(least, step), snap_down(most, step)
    return (lower, upper) if lower < upper else (snap_value(least, step), snap_value(most, step))


def infer_step(numbers: NDArray[np.float64]) -> float:
    """The greatest common step of nearly all of numbers (n,), else about a millionth of their usual spread.

    Nearly all: a few may lie off its grid, and keep their values. Zero is on the grid: 3, 9, 15 have the step 3, and
    5, 11, 17 the step 1. A step above the precision that the numbers are written with, at most six decimals, needs
    values enough: two loan terms say little. It divides 1 or is a whole number, so that the grid holds exact decimals.
    """
    largest = float(np.abs(numbers).max())
    for decimals in range(MOST_DECIMALS + 1):
        step = 10.0**-decimals
        if largest <= MOST_STEPS * step and _nearly_on_grid(numbers, step):
            return _common_multiple(numbers, decimals)
    finest = math.ceil(math.log10(largest / MOST_STEPS))
    return float(10.0 ** max(math.floor(math.log10(_usual_spread(numbers))) - 6, finest))


def _nearly_on_grid(numbers: NDArray[np.float64], step: float) -> bool:
    """Whether all of numbers (n,), or nearly all and of these several different ones, are multiples of the step"""
    on = settle(numbers, step) == snap(numbers, step)
    return bool(on.all()) or _nearly_all(*np.unique(numbers[numbers != 0], return_counts=True), step)


def _nearly_all(values: NDArray[np.float64], counts: NDArray[np.intp], step: float) -> bool:
    """Whether nearly all are on the grid, of different values (v,) that come so often (v,)

    By rows, and most of the different values too: where one value is most of the rows, it says nothing of the others.
    """
    on = settle(values, step) == snap(values, step)
    several = LEAST_ON_GRID <= int(on.sum()) >= MOST_DIFFERENT * len(on)
    return several and bool(counts[on].sum() >= NEARLY_ALL * counts.sum())


def _common_multiple(numbers: NDArray[np.float64], decimals: int) -> float:
    """The greatest step of nearly all of numbers (n,), which have so many decimals"""
    parts = 10**decimals
    values, counts = np.unique(numbers[numbers != 0], return_counts=True)

    def common(multiple: int) -> bool:
        exact = parts % multiple == 0 or multiple % parts == 0
        return exact and _nearly_all(values, counts, multiple / parts)

    multiple = 1
    while wider := next((prime for prime in PRIMES if common(multiple * prime)), None):
        multiple *= wider
    # Terms of 12, 24 and 36 months have 12 in common: 2 alone, or 3, would say nothing of three values.
    return float(multiple / parts) if len(values) * math.log(multiple) >= math.log(RARE) else 1 / parts


def _usual_spread(numbers: NDArray[np.float64]) -> float:
    """The standard deviation of numbers (n,), at most the width of all but the extreme twentieths of what they are."""
    deviation, distinct = float(numbers.std()), np.unique(numbers)
    lower, upper = np.quantile(distinct, 0.05, method="higher"), np.quantile(distinct, 0.95, method="lower")
    return min(deviation, float(upper - lower)) if lower < upper else deviation
