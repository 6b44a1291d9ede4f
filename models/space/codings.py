"""Where categories lie in encoded space (METHOD.md, section 1).

simplex  categories without an order are all equally far from each other, those with one lie on a line
circle   all of them lie on a circle, in the order in which they are listed, as in the paper

On a line and on a simplex, categories that are all as frequent have the variance of a z-score: distances compare.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ..data.schema import Feature

Encoding: TypeAlias = Literal["simplex", "circle"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
Floats: TypeAlias = NDArray[np.float64]
Levels: TypeAlias = NDArray[np.intp]
Flags: TypeAlias = NDArray[np.bool_]

_TURN = 2.0 * np.pi
_BESIDE = math.sqrt(2.0)
"""So far from the middle of a line is a missing value: as two z-scores usually are from each other."""
_FAR = 1e100
"""What lies further is as near to one end of a line as this."""


@dataclass(frozen=True, eq=False)
class Coding(ABC):
    """C categorical features side by side, each in W columns.

    categories (C,)  the number of categories of each
    nullable   (C,)  whether one more level, after the last category, stands for a missing value
    """

    categories: Levels
    nullable: Flags

    @cached_property
    def counts(self) -> Levels:
        """(C,) levels of each feature, the missing one included"""
        return self.categories + self.nullable

    @property
    @abstractmethod
    def width(self) -> int:
        """W"""

    @property
    @abstractmethod
    def table(self) -> Floats:
        """(C, Lmax, W) the point of each level

        A table and not a call a record: a vectorised cosine may round by where the value stands in the array.
        """

    def points(self, levels: Levels) -> Floats:
        """levels (n, C) -> points (n, C, W)"""
        points: Floats = self.table[np.arange(len(self.counts)), levels]
        return points

    def nearest(self, points: Floats, permitted: Flags | None, missing: Flags) -> Levels:
        """The nearest permitted level of each point.

        points (n, C, W), anywhere; permitted (n, C, K) categories, None for all; missing (n, C) whether the missing
        level is permitted -> (n, C)
        """
        seen = self._seen(points)
        levels = self._nearest_of_all(seen)
        refused = (levels == self.categories) & ~missing
        if permitted is not None:
            category = np.minimum(levels, self.categories - 1)[..., None]
            refused |= (levels < self.categories) & ~np.take_along_axis(permitted, category, axis=2)[..., 0]
        rows, which = np.nonzero(refused)
        if len(rows):
            choice = self._choice(which, None if permitted is None else permitted[rows, which], missing[rows, which])
            closeness = np.where(choice, self._closeness(seen[rows, which], which), -np.inf)
            levels[rows, which] = closeness.argmax(axis=1)
        return levels

    @abstractmethod
    def box(self, permitted: Flags, missing: Flags) -> tuple[Floats, Floats]:
        """permitted (n, C, K), missing (n, C) -> the least and the greatest of each column, both (n, C, W)

        Inside lie the points of what is permitted, and half a step of room around them: a path that is stopped right at
        a point has no gradient that would lead it away.
        """

    def _seen(self, points: Floats) -> Floats:
        """points (n, C, W) -> what decides which level is near (n, C, ...)"""
        return points

    @abstractmethod
    def _nearest_of_all(self, seen: Floats) -> Levels:
        """(n, C, ...) -> the nearest level of each, whatever is permitted (n, C)"""

    @abstractmethod
    def _closeness(self, seen: Floats, which: Levels) -> Floats:
        """seen (m, ...) of the features which (m,) -> (m, Lmax), the greater the nearer"""

    def _choice(self, which: Levels, permitted: Flags | None, missing: Flags) -> Flags:
        """which (m,) of the C features, permitted (m, K), missing (m,) -> the levels to choose from (m, Lmax)"""
        levels, categories = np.arange(self.counts.max()), self.categories[which]
        choice = levels < categories[:, None]
        if permitted is not None:
            choice[:, : permitted.shape[1]] &= permitted[:, : choice.shape[1]]
        choice |= (levels == categories[:, None]) & (missing & self.nullable[which])[:, None]
        return choice


@dataclass(frozen=True, eq=False)
class Circles(Coding):
    """Level k of K at the angle 2*pi*k/K of the unit circle (paper, appendix "Data Preparation")."""

    @property
    def width(self) -> int:
        return 2

    @cached_property
    def table(self) -> Floats:
        angles = np.arange(self.counts.max(initial=0)) * (_TURN / self.counts[:, None])
        return np.stack([np.cos(angles), np.sin(angles)], axis=-1)

    def box(self, permitted: Flags, missing: Flags) -> tuple[Floats, Floats]:
        """The whole circle: its part would be no box."""
        ones = np.ones((*missing.shape, 2))
        return -ones, ones

    def _seen(self, points: Floats) -> Floats:
        """The angles (n, C)"""
        angles: Floats = np.arctan2(points[..., 1], points[..., 0])
        return angles

    def _nearest_of_all(self, seen: Floats) -> Levels:
        levels: Levels = np.rint(seen * (self.counts / _TURN)).astype(np.intp) % self.counts
        return levels

    def _closeness(self, seen: Floats, which: Levels) -> Floats:
        levels = np.arange(self.counts.max())
        closeness: Floats = np.cos(seen[:, None] - levels * (_TURN / self.counts[which, None]))
        return closeness


@dataclass(frozen=True, eq=False)
class Lines(Coding):
    """Categories equally far apart along a line, in their order; a missing value stands beside it, in a second column.

    ranks (C, Kmax)  the place of each category; all C are nullable, or none is
    """

    ranks: Levels

    @property
    def width(self) -> int:
        return 2 if self.nullable.any() else 1

    @cached_property
    def spacing(self) -> Floats:
        """(C,) the distance of neighbours, for which equally frequent categories have the variance 1"""
        spacing: Floats = np.sqrt(12.0 / (self.categories**2 - 1.0))
        return spacing

    @cached_property
    def table(self) -> Floats:
        count = int(self.counts.max(initial=0))
        table = np.zeros((len(self.counts), count, self.width))
        middle = (self.categories[:, None] - 1) / 2
        table[:, : self.ranks.shape[1], 0] = (self.ranks - middle) * self.spacing[:, None]
        for position in np.flatnonzero(self.nullable):
            table[position, self.categories[position]] = 0.0, _BESIDE
        return table

    @cached_property
    def _levels(self) -> Levels:
        """(C, Kmax) the category of each rank; beyond a feature's own ranks any"""
        filled = np.where(np.arange(self.ranks.shape[1]) < self.categories[:, None], self.ranks, self.ranks.shape[1])
        return filled.argsort(axis=1, kind="stable")

    def box(self, permitted: Flags, missing: Flags) -> tuple[Floats, Floats]:
        """From the first to the last permitted rank; with the middle, if the value may stay missing."""
        last, middle, missing = self.ranks.shape[1] - 1, (self.categories - 1) / 2, missing & self.nullable
        ranked = np.take_along_axis(permitted, self._levels[None], axis=2)
        ranked &= np.arange(last + 1) < self.categories[:, None]
        none = ~ranked.any(axis=2)
        first, final = ranked.argmax(axis=2), last - ranked[..., ::-1].argmax(axis=2)
        first = np.where(none, middle, np.where(missing, np.fmin(first, middle), first))
        final = np.where(none, middle, np.where(missing, np.fmax(final, middle), final))
        least, most = (first - middle - 0.5) * self.spacing, (final - middle + 0.5) * self.spacing
        if self.width == 1:
            return least[..., None], most[..., None]
        beside = np.where(missing, _BESIDE, 0.0)
        return np.stack([least, -beside / 2], axis=-1), np.stack([most, 1.5 * beside], axis=-1)

    def _nearest_of_all(self, seen: Floats) -> Levels:
        along = np.clip(seen[..., 0], -_FAR, _FAR)
        last = self.categories - 1
        rank = np.clip(np.rint(along / self.spacing + last / 2), 0, last).astype(np.intp)
        levels: Levels = self._levels[np.arange(len(self.counts)), rank]
        if self.width == 1:
            return levels
        own = self.table[np.arange(len(self.counts)), levels, 0]
        beside = _BESIDE * np.clip(seen[..., 1], -_FAR, _FAR) - _BESIDE**2 / 2 > along * own - own**2 / 2
        return np.where(beside, self.categories, levels)

    def _closeness(self, seen: Floats, which: Levels) -> Floats:
        """p.t - |t|^2/2, which is greatest where |p - t|^2 is least"""
        points, table = np.clip(seen, -_FAR, _FAR)[:, None], self.table[which]
        closeness: Floats = (points * table).sum(axis=2) - (table**2).sum(axis=2) / 2
        return closeness


@dataclass(frozen=True, eq=False)
class Simplices(Coding):
    """One column a level, `radius` in its own and 0 elsewhere; all C features have as many levels."""

    @property
    def width(self) -> int:
        return int(self.counts[0])

    @cached_property
    def radius(self) -> float:
        """For which equally frequent levels have the variance 1"""
        return math.sqrt(self.width / (self.width - 1))

    @cached_property
    def table(self) -> Floats:
        return np.broadcast_to(self.radius * np.eye(self.width), (len(self.counts), self.width, self.width))

    def box(self, permitted: Flags, missing: Flags) -> tuple[Floats, Floats]:
        allowed = np.zeros((*missing.shape, self.width), dtype=np.bool_)
        common = min(permitted.shape[2], self.width)
        allowed[..., :common] = permitted[..., :common]
        allowed |= (np.arange(self.width) == self.categories[:, None]) & (missing & self.nullable)[..., None]
        return np.full(allowed.shape, -self.radius / 2), np.where(allowed, 1.5 * self.radius, 0.0)

    def _nearest_of_all(self, seen: Floats) -> Levels:
        nearest: Levels = seen.argmax(axis=2)
        return nearest

    def _closeness(self, seen: Floats, which: Levels) -> Floats:
        return seen


def codings_of(features: Sequence[Feature], encoding: Encoding) -> list[tuple[list[int], Coding]]:
    """The categorical ones of the features, by their place, in groups that are encoded alike.

    Two levels are two points in any encoding; on the line they take one column.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for j, feature in enumerate(features):
        if feature.is_categorical:
            groups.setdefault(_form(feature, encoding), []).append(j)
    return [(chosen, _coding(form, [features[j] for j in chosen])) for (form, _), chosen in groups.items()]


def _form(feature: Feature, encoding: Encoding) -> tuple[str, int]:
    levels = len(feature.categories) + feature.nullable
    if encoding == "circle":
        return "circle", 2
    if levels == 2 or (feature.ordered and len(feature.categories) > 2):
        return "line", 1 + feature.nullable
    return "simplex", levels


def _coding(form: str, features: Sequence[Feature]) -> Coding:
    categories = np.array([len(feature.categories) for feature in features], dtype=np.intp)
    nullable = np.array([feature.nullable for feature in features], dtype=np.bool_)
    if form == "circle":
        return Circles(categories, nullable)
    if form == "simplex":
        return Simplices(categories, nullable)
    ranks = np.zeros((len(features), int(categories.max())), dtype=np.intp)
    for row, feature in zip(ranks, features, strict=True):
        row[: len(feature.categories)] = feature.ranks
    return Lines(categories, nullable, ranks)
