"""Random action policies, requests and candidates for any schema, all from a seeded generator.

Policies nearly always fit their schema; `models.data.policy_checks` says so where one does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from models.arrays import Records
from models.data.grid import Grid, plain, snap_value
from models.data.schema import Direction, Feature, FeatureKind, Schema

Json = dict[str, Any]
Choice = TypeVar("Choice")
LEVERS = ("applicant", "lender", "nobody")


def random_policy(schema: Schema, random: Generator, most_rules: int = 6) -> Json:
    """A policy as JSON."""
    return _Maker(schema, random).policy(most_rules)


def random_request(random: Generator) -> Json:
    levers = [lever for lever in ("applicant", "lender", "time") if random.random() < 0.7]
    return {"levers": levers or ["applicant"], "horizon_months": int(random.integers(0, 25))}


@dataclass
class _Maker:
    schema: Schema
    random: Generator
    rules: list[Json] = field(default_factory=list)
    follows: dict[str, str] = field(default_factory=dict)

    def policy(self, most_rules: int) -> Json:
        order = [self.schema.features[j] for j in self.random.permutation(len(self.schema.features))]
        for feature in order[: len(order) // 2]:
            self.follower(feature)
        free = [feature for feature in order if feature.name not in self.follows]
        for rule in self.rules:
            if rule["rule"] == "time" and self.chance(0.3):
                rule["while"] = self.conditions(free, changed=[False])
        self.rules += [self.loose(order) for _ in range(self.random.integers(0, most_rules + 1))]
        features = {feature.name: self.feature(feature) for feature in order if self.chance(0.7)}
        return {
            "format": 1,
            "features": {name: entry for name, entry in features.items() if entry},
            "rules": self.rules,
        }

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def one(self, choices: Sequence[Choice]) -> Choice:
        return choices[int(self.random.integers(len(choices)))]

    def steps(self, feature: Feature, most: int = 8) -> float:
        count = min(int(self.random.integers(1, most + 1)), round((feature.upper - feature.lower) / feature.step))
        return snap_value(count * feature.step, feature.step)

    def value(self, feature: Feature) -> Any:  # noqa: ANN401 - a number or a category
        if feature.is_categorical:
            return self.one(feature.categories)
        return float(some_values(feature, self.random, 1)[0])

    def follower(self, feature: Feature) -> None:
        """Perhaps a rule by which a feature follows."""
        kind, rule = self.one(["none", "time", "window", "formula", "formula"]), None
        if kind == "formula":
            rule = self.formula(feature)
        elif kind == "time" and not feature.is_categorical:
            way = {Direction.UP: 1, Direction.DOWN: -1}.get(feature.direction) or self.one([1, -1])
            rule = {"adds": way * self.steps(feature), "months": self.one([1, 2, 5, 12])}
        elif kind == "window" and not feature.is_categorical and feature.direction is Direction.ANY:
            falls, months = self.one(["evenly", "at_end"]), int(self.random.integers(1, 15))
            rule = {"months": months, "to": self.value(feature), "falls": falls}
        if rule is not None:
            self.rules.append({"rule": kind, "feature": feature.name, **rule})
            self.follows[feature.name] = kind

    def formula(self, feature: Feature) -> Json | None:
        others = [one for one in self.schema.features if one is not feature and self.follows.get(one.name) != "formula"]
        sources = [one for one in others if one.is_categorical]
        numbers = [one for one in others if not one.is_categorical]
        keep = "none" if feature.is_categorical else self.one(["difference", "ratio", "none"])
        if sources and (feature.is_categorical or not numbers or self.chance(0.3)):
            source = self.one(sources)
            values = {category: self.value(feature) for category in source.categories}
            return {"table": {"feature": source.name, "values": values}, "keep": keep}
        if feature.is_categorical or not numbers:
            return None
        text = self.expression(numbers, 2)
        return {"equals": text, "keep": keep} if "`" in text else None

    def expression(self, numbers: Sequence[Feature], depth: int, before: bool = False) -> str:
        kind = self.one(["name", "number", "sum", "sum", "product", "min"]) if depth else "name"
        feature = self.one(numbers)
        if kind == "name":
            return f"before(`{feature.name}`)" if before and self.chance(0.3) else f"`{feature.name}`"
        if kind == "number":
            return plain(self.one([0.0, 0.5, 1.0, 2.0, 12.0, self.steps(feature)]))
        one, other = (self.expression(numbers, depth - 1, before) for _ in range(2))
        if kind == "min":
            return f"{self.one(['min', 'max'])}({one}, {other})"
        return f"({one} {self.one(['+', '-'] if kind == 'sum' else ['*', '/'])} {other})"

    def conditions(self, features: Sequence[Feature], changed: Sequence[bool] = (True, False)) -> Json:
        found: Json = {}
        for feature in {self.one(features).name: None for _ in range(self.random.integers(1, 3))}:
            chosen = self.schema.features[self.schema.index(feature)]
            kinds = ["in", "not_in", "changed", *([] if chosen.is_categorical else ["at_least", "at_most"] * 2)]
            kind = self.one(kinds)
            if kind == "changed":
                found[feature] = {kind: self.one(changed)}
            elif kind in ("in", "not_in"):
                found[feature] = {kind: [self.value(chosen) for _ in range(self.random.integers(1, 4))]}
            else:
                found[feature] = {kind: self.value(chosen)}
        return found

    def loose(self, features: Sequence[Feature]) -> Json:
        """A rule that only asks."""
        numbers = [feature for feature in features if not feature.is_categorical]
        listed = [feature.name for feature in features if self.follows.get(feature.name) != "formula"]
        kind = self.one(["implies", "inequality", "inequality", "at_most_one"])
        if kind == "inequality" and numbers:
            one, other = (self.expression(numbers, 1, before=True) for _ in range(2))
            if "`" in one + other:
                return {"rule": kind, "require": f"{one} {self.one(['<=', '>='])} {other}"}
        if kind == "at_most_one" and len(listed) > 1:
            some = [listed[j] for j in self.random.permutation(len(listed))[: self.random.integers(2, 4)]]
            return {"rule": kind, "features": some}
        return {"rule": "implies", "if": self.conditions(features), "then": self.conditions(features)}

    def feature(self, feature: Feature) -> Json:
        follows = self.follows.get(feature.name)
        if follows in ("time", "window"):
            return {"past": True, "codes": {plain(feature.least): "a reason"}} if self.chance(0.3) else {}
        if follows:
            return {}
        entry: Json = {}
        if not feature.immutable and self.chance(0.5):
            entry["lever"] = self.one([*LEVERS, ["applicant", "lender"]])
        if self.chance(0.1) and entry.get("lever", "nobody") == "nobody":
            return entry | {"past": True}
        if feature.direction is Direction.ANY and self.chance(0.2):
            entry["move"] = self.one(["up", "down"])
            if feature.is_categorical:
                entry["order"] = [feature.categories[j] for j in self.random.permutation(len(feature.categories))]
        if feature.is_categorical:
            if "move" not in entry and self.chance(0.4):
                some = {self.one(feature.categories): None for _ in feature.categories}
                entry["transitions"] = {name: [self.one(feature.categories) for _ in "ab"] for name in some}
            return entry
        return entry | self.number(feature)

    def number(self, feature: Feature) -> Json:
        entry: Json = {}
        low, high = sorted(self.value(feature) for _ in "ab")
        entry |= {"lower": low} if self.chance(0.2) else {}
        entry |= {"upper": high} if self.chance(0.2) else {}
        entry |= {"grid": {"step": self.steps(feature), "offset": self.value(feature)}} if self.chance(0.2) else {}
        if self.chance(0.25):
            codes = {self.value(feature), feature.least, *(self.value(feature) for _ in "ab")}
            entry["codes"] = {plain(code): "a reason" for code in sorted(codes)}
            if not feature.immutable:
                entry["leave_codes"] = self.chance(0.5)
        entry |= {"smallest_change": self.steps(feature)} if self.chance(0.2) else {}
        entry |= {"largest_change": self.steps(feature, 20)} if self.chance(0.2) else {}
        entry |= {"largest_share": self.one([0.1, 0.3, 1.0])} if self.chance(0.1) else {}
        return entry


def some_values(feature: Feature, random: Generator, count: int) -> NDArray[np.float64]:
    """Values on the feature's grid between its bounds (count,)"""
    last = round((feature.upper - feature.lower) / feature.step)
    steps = random.integers(0, last + 1, count)
    return Grid.of(feature.step).snap(np.asarray(feature.lower + steps * feature.step, dtype=np.float64))


def random_candidates(schema: Schema, random: Generator, origin: Records, count: int) -> Records:
    """origin (n, F) -> records that differ from it in a few features, near or far or missing (n, count, F)"""
    found = np.repeat(origin[:, None], count, axis=1)
    share = random.choice([0.2, 0.5, 1.0], found.shape[:2])
    for j, feature in enumerate(schema.features):
        values = some_values(feature, random, share.size).reshape(share.shape)
        if not feature.is_categorical:
            near = found[:, :, j] + random.integers(-8, 9, share.shape) * feature.step
            near = Grid.of(feature.step).snap(np.clip(near, feature.lower, feature.upper))
            values = np.where(np.isnan(near) | (random.random(share.shape) < 0.5), values, near)
        if feature.nullable:
            values = np.where(random.random(share.shape) < 0.1, np.nan, values)
        found[:, :, j] = np.where(random.random(share.shape) < share, values, found[:, :, j])
    return found


def random_schema(random: Generator, count: int) -> Schema:
    """Features of every kind, most of which may move."""
    features = []
    for j in range(count):
        marks: Mapping[str, Any] = {"immutable": random.random() < 0.1, "nullable": random.random() < 0.3}
        if random.random() < 0.35:
            categories = tuple(f"c{level}" for level in range(random.integers(2, 6)))
            features.append(
                Feature(f"f{j}", FeatureKind.CATEGORICAL, categories=categories, ordered=random.random() < 0.5, **marks)
            )
            continue
        step = float(random.choice([1.0, 0.1, 0.01, 0.25, 5.0]))
        start, span = int(random.integers(-20, 20)), int(random.integers(2, 60))
        lower, upper = snap_value(start * step, step), snap_value((start + span) * step, step)
        way = random.choice(["any", "any", "any", "up", "down"])
        kind = FeatureKind.INTEGER if step >= 1 else FeatureKind.NUMERIC
        least = snap_value((start - 3) * step, step)
        features.append(Feature(f"f{j}", kind, lower, upper, step, direction=Direction(way), least=least, **marks))
    return Schema(tuple(features), "label", ("no", "yes"))


def random_records(schema: Schema, random: Generator, count: int, policy: Json) -> Records:
    """Records such as applicants have: off the grid, out of bounds, missing and with codes now and then (count, F)"""
    found = np.empty((count, len(schema.features)))
    for j, feature in enumerate(schema.features):
        values = some_values(feature, random, count)
        if not feature.is_categorical:
            off = np.round(
                values + random.normal(0, 0.3, count) * feature.step, 0 if feature.kind is FeatureKind.INTEGER else 6
            )
            values = np.where(random.random(count) < 0.1, np.clip(off, feature.least, feature.most), values)
            codes = [float(code) for code in policy["features"].get(feature.name, {}).get("codes", {})]
            if codes:
                values = np.where(random.random(count) < 0.3, random.choice(codes, count), values)
        gone = feature.nullable & (random.random(count) < 0.15)
        found[:, j] = np.where(gone, np.nan, values)
    return found
