"""Orders that the names of categories say themselves: none, low, high; under 25, 25 - 45, over 45.

Every name must have its place: with one that has none, the feature has no order until somebody states it.
"""

import math
import re
from collections.abc import Sequence
from itertools import pairwise

SCALES: tuple[tuple[str, ...], ...] = (
    (
        "no, none, nil, zero, nothing, never",
        "very low, lowest, minimal",
        "low",
        "medium, moderate, mid, middle, average, normal, intermediate",
        "high",
        "very high, highest, extreme",
    ),
    (
        "tiny, extra small, very small, xs",
        "small, s",
        "medium, m",
        "large, big, l",
        "huge, extra large, very large, xl",
    ),
    ("terrible, very bad, very poor", "bad, poor", "fair, average, ok, okay", "good", "very good", "excellent"),
    ("never", "rarely, seldom", "sometimes, occasionally", "often, frequently", "always"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("no, none", "few, little", "some, several", "many, much"),
    ("beginner, novice", "intermediate", "advanced", "expert"),
    ("junior", "mid, middle", "senior"),
)
"""From the least to the greatest; what stands at one step means the same."""

_NUMBER = r"(\d+(?:\.\d+)?)"
_UNIT = r"(?: ?[a-z%$€£]+)?"
_RANGE = re.compile(rf"[(\[]? ?{_NUMBER}{_UNIT} ?(?:-|to|,) ?{_NUMBER}{_UNIT} ?[)\]]?")
_UNDER = re.compile(rf"(?:<=?|less than|under|below|up to|at most) ?{_NUMBER}{_UNIT}")
_OVER = re.compile(rf"(?:>=?|more than|greater than|over|above|at least) ?{_NUMBER}{_UNIT}|{_NUMBER} ?\+{_UNIT}")


def obvious_order(categories: Sequence[str]) -> tuple[str, ...]:
    """All categories from the least to the greatest, () where their names do not say it, or where there are two"""
    if len(categories) < 3:
        return ()
    words = [" ".join(re.split(r"[\s_-]+", name.strip().casefold())) for name in categories]
    for scale in SCALES:
        places = {word.strip(): place for place, step in enumerate(scale) for word in step.split(",")}
        ranks = [places.get(word, -1) for word in words]
        if -1 not in ranks and len(set(ranks)) == len(ranks):
            return tuple(name for _, name in sorted(zip(ranks, categories, strict=True)))
    return _by_interval(categories)


def _by_interval(categories: Sequence[str]) -> tuple[str, ...]:
    """In the order of the intervals of numbers that they name; each must end where the next one begins, or before"""
    intervals = [_interval(" ".join(name.strip().casefold().split())) for name in categories]
    if any(math.isnan(lower) for lower, _ in intervals) or all(lower == upper for lower, upper in intervals):
        return ()
    ends = sorted(intervals)
    apart = all(one[1] <= other[0] and one != other for one, other in pairwise(ends))
    return tuple(name for _, name in sorted(zip(intervals, categories, strict=True))) if apart else ()


def _interval(name: str) -> tuple[float, float]:
    """The interval that the name says, of one number where it is one; NaN where it is neither"""
    if found := _RANGE.fullmatch(name):
        lower, upper = float(found[1]), float(found[2])
        return (lower, upper) if lower < upper else (math.nan, math.nan)
    if found := _UNDER.fullmatch(name):
        return -math.inf, float(found[1])
    if found := _OVER.fullmatch(name):
        return float(found[1] or found[2]), math.inf
    if found := re.fullmatch(_NUMBER + _UNIT, name):
        return float(found[1]), float(found[1])
    return math.nan, math.nan
