"""Does an answer break an action policy? Written from docs/POLICY.md alone, in plain Python, with nothing of models/.

    broken(policy, schema, record, answer, request) -> a sentence for each thing that is wrong; none is right

policy and schema are JSON documents, record and answer map features to values (None where missing), request has
`levers`, `horizon_months`, `max_changes`, `immutable`, `ranges` and `directions`, as docs/POLICY.md names them.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]
NOISE = 1e-6


def broken(policy: Json, schema: Json, record: Json, answer: Json, request: Json) -> list[str]:
    return list(Check(policy, schema, record, answer, request).faults())


def count_actions(policy: Json, record: Json, answer: Json) -> int:
    """Each feature that changes and does not follow is one action, and waiting is one."""
    rules = policy.get("rules", [])
    timed = {rule["feature"] for rule in rules if rule["rule"] in ("time", "window")}
    derived = {rule["feature"] for rule in rules if rule["rule"] == "formula"}
    moved = {name for name in record if record[name] != answer[name]}
    return len(moved - timed - derived) + bool(moved & timed)


class Check:
    def __init__(self, policy: Json, schema: Json, record: Json, answer: Json, request: Json) -> None:
        self.policy, self.request, self.record, self.answer = policy, request, record, answer
        self.features = {feature["name"]: feature for feature in schema["features"]}
        self.rules = policy.get("rules", [])
        self.levers = set(request.get("levers", ["applicant", "time"]))
        self.clock = {rule["feature"]: rule for rule in self.rules if rule["rule"] in ("time", "window")}
        self.formulas = {rule["feature"]: rule for rule in self.rules if rule["rule"] == "formula"}

    def faults(self) -> Iterator[str]:
        for name in self.features:
            yield from self.schema_faults(name)
            yield from self.request_faults(name)
            if name not in self.clock and name not in self.formulas and self.changed(name):
                yield from self.hand_faults(name)
        yield from self.time_faults()
        for place, rule in enumerate(self.rules, start=1):
            title = f"rule {place} ({rule.get('name') or rule['rule']})"
            yield from (f"{title}: {fault}" for fault in self.rule_faults(rule))
        most = self.request.get("max_changes")
        count = count_actions(self.policy, self.record, self.answer)
        if most is not None and count > most:
            yield f"{count} actions, {most} asked"

    # what the schema and the request say

    def schema_faults(self, name: str) -> Iterator[str]:
        feature, own, new = self.features[name], self.record[name], self.answer[name]
        if not self.changed(name):
            return
        follows = name in self.clock or name in self.formulas
        if (feature["immutable"] or feature["protected"]) and not follows:
            yield f"{name} is immutable"
        if new is None:
            yield f"{name} has become missing"
        elif feature["kind"] == "categorical":
            if new not in feature["categories"]:
                yield f"{name} has the unknown category {new}"
        else:
            low, high = feature["lower"], feature["upper"]
            if (
                not min([low, own] if own is not None else [low])
                <= new
                <= max([high, own] if own is not None else [high])
            ):
                yield f"{name} is {new}, out of bounds"
            if new in {float(code) for code in self.policy.get("features", {}).get(name, {}).get("codes", {})}:
                yield f"{name} has become the code {new}"
            if not multiple(new, feature["step"], 0.0):
                yield f"{name} is {new}, no multiple of its step"
        yield from self.direction_faults(name, feature["direction"], feature.get("order") or feature["categories"])

    def request_faults(self, name: str) -> Iterator[str]:
        feature, new = self.features[name], self.answer[name]
        if name in self.request.get("immutable", []) and self.changed(name):
            yield f"{name} is immutable by the request"
        way = self.request.get("directions", {}).get(name, "any")
        if self.changed(name):
            yield from self.direction_faults(name, way, feature.get("order") or feature["categories"])
        span = self.request.get("ranges", {}).get(name)
        if new is None and self.stuck(name):
            return
        if span is not None and feature["kind"] == "categorical":
            if new not in span:
                yield f"{name} is {new}, not in the range of the request"
        elif span is not None and tuple(span) != (None, None):
            low, high = (-math.inf if span[0] is None else span[0]), (math.inf if span[1] is None else span[1])
            if new is None or not low <= new <= high:
                yield f"{name} is {new}, not in the range of the request"

    def stuck(self, name: str) -> bool:
        """Whether it could not change, were it not missing; then a range asks nothing of it."""
        feature, ways = self.features[name], self.request.get("directions", {})
        fixed = (feature["immutable"] or feature["protected"]) and name not in self.clock and name not in self.formulas
        one_way = {feature["direction"], ways.get(name, "any")} != {"any"}
        return bool(fixed or one_way or name in self.request.get("immutable", []))

    def direction_faults(self, name: str, way: str, order: list[str]) -> Iterator[str]:
        """A changed feature against a direction."""
        if way == "any":
            return
        own, new = self.record[name], self.answer[name]
        if own is None or new is None:
            yield f"{name} is missing, so it may not change"
            return
        if self.features[name]["kind"] == "categorical":
            own, new = order.index(own), order.index(new)
        if (way == "up") != (new > own):
            yield f"{name} moves against '{way}'"

    # what the policy says of a feature that changes and does not follow

    def hand_faults(self, name: str) -> Iterator[str]:
        feature, entry = self.features[name], self.policy.get("features", {}).get(name, {})
        levers = entry.get("lever", "nobody" if entry.get("past") else "applicant")
        levers = {levers} if isinstance(levers, str) else set(levers)
        if not levers & self.levers or entry.get("past"):
            yield f"{name} is moved by {sorted(levers)}, the request has {sorted(self.levers)}"
        own, new = self.record[name], self.answer[name]
        if new is None:
            return
        if feature["kind"] != "categorical":
            yield from self.number_faults(name, entry, own, new)
            return
        order = entry.get("order") or feature.get("order") or feature["categories"]
        yield from self.direction_faults(name, entry.get("move", "any"), order)
        if "transitions" in entry and (own is None or new not in entry["transitions"].get(own, [])):
            yield f"{name} has no transition from {own} to {new}"

    def number_faults(self, name: str, entry: Json, own: float | None, new: float) -> Iterator[str]:
        feature = self.features[name]
        codes = {float(code) for code in entry.get("codes", {})}
        low = max(feature["lower"], entry.get("lower", -math.inf))
        high = min(feature["upper"], entry.get("upper", math.inf))
        grid = entry.get("grid", {"step": feature["step"]})
        step, noise = grid["step"], NOISE * grid["step"]
        if not multiple(new, step, grid.get("offset", 0.0)):
            yield f"{name} is {new}, not on its grid"
        if own in codes:
            if not entry.get("leave_codes", False):
                yield f"{name} leaves its code {own}"
            if not low - noise <= new <= high + noise:
                yield f"{name} is {new}, which is not suggested"
            return
        if own is not None:
            low, high = min(low, own), max(high, own)
        if not low - noise <= new <= high + noise:
            yield f"{name} is {new}, which is not suggested"
        yield from self.direction_faults(name, entry.get("move", "any"), [])
        if own is not None:
            yield from self.size_faults(name, entry, own, abs(new - own), noise)

    def size_faults(self, name: str, entry: Json, own: float, size: float, noise: float) -> Iterator[str]:
        asked = name in self.request.get("ranges", {})  # what a range asks for may be as small as it has to be
        if size < entry.get("smallest_change", 0.0) * (1 - NOISE) and not (asked and not self.own_in_range(name)):
            yield f"{name} changes by {size}, less than its smallest change"
        share = entry["largest_share"] * abs(own) if "largest_share" in entry else math.inf
        most = min(entry.get("largest_change", math.inf), share)
        if size > most + noise:
            yield f"{name} changes by {size}, more than {most}"

    def own_in_range(self, name: str) -> bool:
        span, own = self.request["ranges"][name], self.record[name]
        low, high = (-math.inf if span[0] is None else span[0]), (math.inf if span[1] is None else span[1])
        return own is not None and bool(low <= own <= high)

    # time

    def time_faults(self) -> Iterator[str]:
        horizon = self.request.get("horizon_months", 12) if "time" in self.levers else 0
        unlike = [name for name in self.clock if self.changed(name)]
        for months in range(horizon + 1):
            off = [name for name in self.clock if not self.as_after(name, months)]
            if not off:
                return
            unlike = off if len(off) < len(unlike) or not months else unlike
        yield f"no wait of 0 to {horizon} months makes {', '.join(unlike)} what they are"

    def as_after(self, name: str, months: int) -> bool:
        """Whether the answer has the value that a wait gives."""
        rule, feature, own, new = self.clock[name], self.features[name], self.record[name], self.answer[name]
        codes = {float(code) for code in self.policy.get("features", {}).get(name, {}).get("codes", {})}
        asked = rule.get("while", {})
        if own is None or own in codes or not (self.meets(asked, self.record) and self.meets(asked, self.answer)):
            return not self.changed(name)
        if rule["rule"] == "time":
            later = own + rule["adds"] * months / rule.get("months", 1)
        else:
            share = min(months / rule["months"], 1.0)
            if rule.get("falls", "at_end") == "at_end":
                share = float(share >= 1.0)
            later = own + (rule.get("to", 0.0) - own) * share
        step = feature["step"]
        rounded = math.floor(later / step + NOISE) if later > own else math.ceil(later / step - NOISE)
        value = rounded * step
        if (later > own) != (value > own) or (later < own) != (value < own):
            value = own
        value = min(max(value, min(feature["lower"], own)), max(feature["upper"], own))
        return bool(new is not None and abs(new - value) <= NOISE * step)

    # rules between features

    def rule_faults(self, rule: Json) -> Iterator[str]:
        kind = rule["rule"]
        if kind == "formula":
            yield from self.formula_faults(rule)
        elif kind == "inequality":
            yield from self.inequality_faults(rule["require"])
        elif kind == "implies":
            premise = any(self.changed(name) for name in rule["if"])
            if self.meets(rule["if"], self.answer):
                for name, condition in rule["then"].items():
                    if (premise or self.changed(name)) and not self.meets({name: condition}, self.answer):
                        yield f"{name} is {self.answer[name]}, which its 'then' forbids"
        elif kind == "at_most_one":
            moved = {name for name in rule["features"] if self.changed(name)}
            if len(moved - set(self.clock)) + bool(moved & set(self.clock)) > 1:
                yield f"{sorted(moved)} change"

    def formula_faults(self, rule: Json) -> Iterator[str]:
        name = rule["feature"]
        feature, own, new = self.features[name], self.record[name], self.answer[name]
        reads = [rule["table"]["feature"]] if "table" in rule else names_in(rule["equals"])
        if own is None or not any(self.changed(other) for other in reads):
            if self.changed(name):
                yield f"{name} changes, but nothing that it follows from"
            return
        after, before = self.formula(rule, self.answer), self.formula(rule, self.record)
        if after is None:
            yield f"{name} cannot be computed, but what it follows from changes"
            return
        keep, expected = rule.get("keep", "difference"), after
        if keep == "ratio" and before:
            expected = own * (after / before)
        elif keep != "none" and before is not None:
            expected = own + (after - before)
        if feature["kind"] == "categorical":
            if new != expected:
                yield f"{name} is {new}, not {expected}"
        elif new is None or abs(new - nearest(expected, feature["step"])) > NOISE * feature["step"]:
            yield f"{name} is {new}, not {expected}"

    def formula(self, rule: Json, values: Json) -> Any:  # noqa: ANN401 - a number, a category or None
        if "table" in rule:
            return rule["table"]["values"].get(values[rule["table"]["feature"]])
        return compute(rule["equals"], self.amounts(values), self.amounts(self.record))

    def inequality_faults(self, text: str) -> Iterator[str]:
        left, sign, right = re.split(r"(<=|>=)", text)
        left, right = (left, right) if sign == "<=" else (right, left)
        own = self.amounts(self.record)
        sides = [compute(side, self.amounts(self.answer), own) for side in (left, right)]
        mine = [compute(side, own, own) for side in (left, right)]
        if sides[0] is None or sides[1] is None:
            return
        excess = 0.0 if mine[0] is None or mine[1] is None else max(0.0, mine[0] - mine[1])
        if sides[0] - sides[1] > excess + 1e-9 * max(1.0, abs(sides[0]), abs(sides[1])):
            yield f"{sides[0]} is above {sides[1]}"

    # words of the language

    def changed(self, name: str) -> bool:
        return bool(self.record[name] != self.answer[name])

    def amounts(self, values: Json) -> dict[str, float | None]:
        """Numbers that are neither missing nor codes."""
        found: dict[str, float | None] = {}
        for name, feature in self.features.items():
            codes = {float(code) for code in self.policy.get("features", {}).get(name, {}).get("codes", {})}
            value = values[name]
            found[name] = None if feature["kind"] == "categorical" or value is None or value in codes else float(value)
        return found

    def meets(self, conditions: Json, values: Json) -> bool:
        amounts = self.amounts(values)
        for name, asked in conditions.items():
            value, amount = values[name], amounts[name]
            holds = [
                "in" not in asked or (value is not None and value in asked["in"]),
                "not_in" not in asked or value is None or value not in asked["not_in"],
                "at_least" not in asked or (amount is not None and amount >= asked["at_least"]),
                "at_most" not in asked or (amount is not None and amount <= asked["at_most"]),
                "changed" not in asked or (value != self.record[name]) == asked["changed"],
            ]
            if not all(holds):
                return False
        return True


def multiple(value: float, step: float, offset: float) -> bool:
    steps = (value - offset) / step
    return abs(steps - round(steps)) <= NOISE + 1e-12 * abs(steps)


def nearest(value: float, step: float) -> float:
    """The nearest multiple of the step; the even one of two."""
    inverse = round(1 / step)
    return round(value * inverse) / inverse if abs(inverse * step - 1) < 1e-9 else round(value / step) * step


WORD = re.compile(r"\s*(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|[^\W\d]\w*|`[^`]+`|[-+*/(),])")


def names_in(text: str) -> list[str]:
    words = WORD.findall(text)
    named = [word.strip("`") for word in words if word[0] == "`" or word[0].isalpha() or word[0] == "_"]
    return [name for name in named if name not in ("min", "max", "before") or f"`{name}`" in words]


def compute(text: str, values: Mapping[str, float | None], own: Mapping[str, float | None]) -> float | None:
    """An expression; None where it cannot be computed. By precedence climbing over the words."""
    words = [*WORD.findall(text), ""]

    def climb(least: int) -> float:
        value = operand()
        while words[0] and words[0] in "+-*/" and (level := 1 + (words[0] in "*/")) >= least:
            sign, other = words.pop(0), climb(level + 1)
            value = {"+": value + other, "-": value - other, "*": value * other}[sign] if sign != "/" else value / other
        return value

    def operand() -> float:
        word = words.pop(0)
        if word == "-":
            return -operand()
        if word == "(":
            inner = climb(1)
            words.pop(0)
            return inner
        if word in ("min", "max", "before") and words[0] == "(":
            return call(word)
        if word[0].isdigit() or word[0] == ".":
            return float(word)
        return known(values[word.strip("`")])

    def call(word: str) -> float:
        words.pop(0)
        if word == "before":
            name = words.pop(0).strip("`")
            words.pop(0)
            return known(own[name])
        parts = [climb(1)]
        while words.pop(0) == ",":
            parts.append(climb(1))
        return min(parts) if word == "min" else max(parts)

    try:
        value = climb(1)
    except (Missing, ZeroDivisionError, OverflowError):
        return None
    return value if math.isfinite(value) else None


class Missing(Exception):
    """A value that an expression needs is not there."""


def known(value: float | None) -> float:
    if value is None:
        raise Missing
    return value
