"""Whether a policy fits a schema and does not contradict itself: a sentence for each mistake, which names the rule."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from ..errors import SchemaError
from .expressions import Operation, asks_before, linear_terms, names_of, parse_expression, parse_inequality
from .grid import plain, snap_value
from .policy import (
    AtMostOne,
    Condition,
    Conditions,
    FeaturePolicy,
    Formula,
    Implies,
    Inequality,
    Keep,
    Lever,
    Policy,
    Rule,
    Time,
    Window,
    written,
)
from .records import one_text
from .schema import Direction, Feature, Schema


def followers(policy: Policy) -> frozenset[str]:
    """The features that nobody moves by hand: those that time moves and those that a formula computes."""
    return frozenset(rule.feature for rule in policy.rules if isinstance(rule, Time | Window | Formula))


def levers_of(feature: Feature, policy: Policy) -> tuple[Lever, ...]:
    """Who can move a feature; of a derived one nobody."""
    rules = [rule for rule in policy.rules if isinstance(rule, Time | Window | Formula)]
    kinds = {type(rule) for rule in rules if rule.feature == feature.name}
    stated = policy.of(feature.name).lever
    if kinds & {Time, Window}:
        return (Lever.TIME,)
    if Formula in kinds or feature.immutable or policy.of(feature.name).past:
        return (Lever.NOBODY,)
    return stated or (Lever.APPLICANT,)


def check_policy(schema: Schema, policy: Policy) -> None:
    """SchemaError with a sentence for each mistake that can be seen without data."""
    if faults := list(policy_faults(schema, policy)):
        raise SchemaError(one_text(list(dict.fromkeys(faults))))


def policy_faults(schema: Schema, policy: Policy) -> Iterator[str]:
    """A sentence for each mistake."""
    known = {feature.name: feature for feature in schema.features}
    for name, entry in policy.features.items():
        if name not in known:
            yield f"The policy names the feature '{name}', which is not there; the features are {', '.join(known)}."
        elif found := list(_FeatureCheck(known[name], entry, policy).faults()):
            yield from found
    for rule in policy.rules:
        title = policy.title(rule)
        title = title[0].upper() + title[1:]
        try:
            unknown = [name for name in names_in(rule) if name not in known]
        except SchemaError as error:
            yield f"{title} cannot be read: {error}."
            continue
        if unknown:
            yield f"{title} names the feature '{unknown[0]}', which is not there; the features are {', '.join(known)}."
        else:
            yield from (f"{title} {fault}." for fault in _rule_faults(rule, known, policy))
    yield from _twice(policy)
    yield from _cycles(policy)
    yield from _clashes(policy)


def names_in(rule: Rule) -> tuple[str, ...]:
    """The features that a rule names, each once."""
    names: list[str] = []
    if isinstance(rule, Time | Window | Formula):
        names.append(rule.feature)
    if isinstance(rule, Time):
        names += rule.while_
    elif isinstance(rule, Implies):
        names += [*rule.if_, *rule.then]
    elif isinstance(rule, Inequality):
        names += [name for side in parse_inequality(rule.require) for name in names_of(side)]
    elif isinstance(rule, Formula):
        names += inputs_of(rule)
    elif isinstance(rule, AtMostOne):
        names += rule.features
    return tuple(dict.fromkeys(names))


def inputs_of(rule: Formula) -> tuple[str, ...]:
    """What a formula reads."""
    if rule.table is not None:
        return (rule.table.feature,)
    return names_of(parse_expression(rule.equals)) if rule.equals else ()


_SIZES = ("lower", "upper", "grid", "leave_codes", "smallest_change", "largest_change", "largest_share")
NUMBER_KEYS = ("codes", *_SIZES)
FREE_KEYS = ("order", "move", "transitions", *_SIZES)
"""What only a feature has that somebody moves by hand."""


@dataclass(frozen=True)
class _FeatureCheck:
    """What is wrong with what a policy says of one feature."""

    feature: Feature
    entry: FeaturePolicy
    policy: Policy

    def faults(self) -> Iterator[str]:
        keys = set(written(self.entry))
        if self.feature.is_categorical and (odd := [key for key in NUMBER_KEYS if key in keys]):
            yield self.say(f"has categories, so it has no '{odd[0]}'")
        elif not self.feature.is_categorical and (odd := [key for key in ("order", "transitions") if key in keys]):
            yield self.say(f"is a number, so it has no '{odd[0]}'")
        else:
            yield from self.contradictions(keys)
            yield from self.categories() if self.feature.is_categorical else self.numbers()
        if self.entry.weight <= 0:
            yield self.say(f"has the weight {plain(self.entry.weight)}, which must be above 0")
        if stray := sorted(set(self.entry.proposed) - (keys - {"proposed"})):
            yield self.say(f"marks '{stray[0]}' as proposed, which it does not say")

    def say(self, fact: str) -> str:
        return f"In the policy, '{self.feature.name}' {fact}."

    def contradictions(self, keys: set[str]) -> Iterator[str]:
        name = self.feature.name
        moving = [rule for rule in self.policy.rules if isinstance(rule, Time | Window) and rule.feature == name]
        formulas = [rule for rule in self.policy.rules if isinstance(rule, Formula) and rule.feature == name]
        stated = set(self.entry.lever or ())
        barred = {*FREE_KEYS, "codes", "past"} if formulas else set(FREE_KEYS)
        if (moving or formulas) and (odd := sorted(barred & keys)):
            what = "is computed by" if formulas else "is moved by"
            yield self.say(f"{what} {self.policy.title([*formulas, *moving][0])}, so it has no '{odd[0]}'")
        if formulas and stated - {Lever.NOBODY}:
            yield self.say(f"is computed by {self.policy.title(formulas[0])}, so no lever moves it")
        elif moving and not formulas and stated - {Lever.TIME}:
            yield self.say(f"is moved by {self.policy.title(moving[0])}, so its lever is time, not {_list(stated)}")
        elif Lever.TIME in stated and not moving:
            yield self.say("has the lever time, but no rule of time moves it")
        if self.entry.lever == ():
            yield self.say("has an empty list of levers; write nobody if nobody moves it")
        if Lever.NOBODY in stated and len(stated) > 1:
            yield self.say("is moved by nobody and by somebody; give one or the other")
        hands = {Lever.APPLICANT, Lever.LENDER} & stated
        if self.entry.past and (hands or {"move", "transitions", "leave_codes"} & keys):
            said = f"the lever {_list(hands)}" if hands else f"'{min({'move', 'transitions', 'leave_codes'} & keys)}'"
            yield self.say(f"is a past fact, so it cannot have {said}")
        if hands and self.feature.immutable and not moving and not formulas:
            yield self.say(f"is immutable in the schema, so the lever {_list(hands)} cannot move it")

    def categories(self) -> Iterator[str]:
        known, entry = set(self.feature.categories), self.entry
        if entry.order and (odd := sorted(known ^ set(entry.order))):
            yield self.say(f"has an order that {'lacks' if odd[0] in known else 'has the unknown'} category '{odd[0]}'")
        elif entry.order and len(entry.order) > len(known):
            yield self.say("has an order that lists a category twice")
        elif entry.move is not Direction.ANY and not (entry.order or self.feature.order):
            yield self.say(f"may only move {entry.move}, but has no order; list its categories in 'order'")
        elif entry.transitions is not None:
            yield from self.transitions(entry.order or self.feature.order or self.feature.categories)
        yield from self.directions()

    def transitions(self, order: tuple[str, ...]) -> Iterator[str]:
        known, steps = set(self.feature.categories), self.entry.transitions or {}
        stated = [name for before, after in steps.items() for name in (before, *after)]
        if odd := [name for name in stated if name not in known]:
            yield self.say(f"has transitions with the unknown category '{odd[0]}'")
            return
        sign = {Direction.UP: 1, Direction.DOWN: -1, Direction.ANY: 0}[self.entry.move]
        for before, after in steps.items():
            if wrong := [name for name in after if sign * (order.index(name) - order.index(before)) < 0]:
                yield self.say(
                    f"has the transition from '{before}' to '{wrong[0]}', but may only move {self.entry.move}"
                )

    def directions(self) -> Iterator[str]:
        ways = {self.entry.move, self.feature.direction} - {Direction.ANY}
        same = not self.entry.order or self.entry.order == self.feature.order
        if len(ways) == 2 and same:
            yield self.say(f"may only move {self.entry.move}, but by the schema only {self.feature.direction}")

    def numbers(self) -> Iterator[str]:
        feature, entry = self.feature, self.entry
        if odd := [code for code in entry.codes if not _is_number(code)]:
            yield self.say(f"has the code '{odd[0]}', which is not a number")
            return
        lower, upper = scale_bounds(feature, entry)
        if lower > upper:
            yield self.say(f"has the bounds {plain(lower)} to {plain(upper)}, which hold nothing of the schema's")
        elif entry.codes and {lower, upper} & set(entry.code_numbers) and not self.stands():
            end = next(code for code in entry.code_numbers if code in (lower, upper))
            key = "lower" if end == lower else "upper"
            yield self.say(f"has the code {plain(end)} at the end of its numbers; give '{key}', where its numbers end")
        elif entry.grid is not None:
            yield from self.multiples(lower, upper)
        if entry.smallest_change is not None and not 0 <= entry.smallest_change <= upper - lower:
            width = plain(upper - lower)
            yield self.say(f"has the smallest change {plain(entry.smallest_change)}, but its bounds are {width} apart")
        for key in ("largest_change", "largest_share"):
            most = getattr(entry, key)
            if most is not None and most <= 0:
                yield self.say(f"has the '{key}' {plain(most)}, which must be above 0")
        if (entry.largest_change or math.inf) < (entry.smallest_change or 0.0):
            yield self.say("has a smallest change above its largest")
        yield from self.directions()

    def stands(self) -> bool:
        """Whether nobody moves it by hand."""
        return self.feature.name in followers(self.policy) or levers_of(self.feature, self.policy) == (Lever.NOBODY,)

    def multiples(self, lower: float, upper: float) -> Iterator[str]:
        grid = self.entry.grid
        assert grid is not None
        step = self.feature.step
        if grid.step <= 0:
            yield self.say(f"has a grid of step {plain(grid.step)}, which must be above 0")
        elif any(abs(snap_value(value, step) - value) > 1e-9 * step for value in (grid.step, grid.offset)):
            yield self.say(f"has a grid that is not on the multiples of its step {plain(step)} in the schema")
        elif math.floor((upper - grid.offset) / grid.step + 1e-6) < math.ceil((lower - grid.offset) / grid.step - 1e-6):
            yield self.say(f"has a grid of which nothing lies between {plain(lower)} and {plain(upper)}")


def scale_bounds(feature: Feature, entry: FeaturePolicy) -> tuple[float, float]:
    """Between these lies what may be suggested of a number."""
    lower = feature.lower if entry.lower is None else max(entry.lower, feature.lower)
    upper = feature.upper if entry.upper is None else min(entry.upper, feature.upper)
    return lower, upper


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _list(levers: set[Lever]) -> str:
    return " and ".join(sorted(levers))


def _rule_faults(rule: Rule, known: Mapping[str, Feature], policy: Policy) -> Iterator[str]:
    """The tails of sentences that begin with the rule's title; all its features are known."""
    if isinstance(rule, Time | Window):
        yield from _time_faults(rule, known, policy)
    elif isinstance(rule, Formula):
        yield from _formula_faults(rule, known)
    elif isinstance(rule, Implies):
        if not rule.if_ or not rule.then:
            yield "needs at least one condition in 'if' and one in 'then'"
        yield from (fault for side in (rule.if_, rule.then) for fault in _condition_faults(side, known))
    elif isinstance(rule, Inequality):
        yield from _inequality_faults(rule, known, policy)
    elif isinstance(rule, AtMostOne):
        derived = {other.feature for other in policy.rules if isinstance(other, Formula)}
        if len(set(rule.features)) < max(2, len(rule.features)):
            yield "needs two or more different features"
        elif odd := [name for name in rule.features if name in derived]:
            yield f"lists '{odd[0]}', which a formula computes"


def _time_faults(rule: Time | Window, known: Mapping[str, Feature], policy: Policy) -> Iterator[str]:
    feature = known[rule.feature]
    if feature.is_categorical:
        yield f"moves '{rule.feature}', which has categories; time moves numbers"
        return
    if rule.months <= 0:
        yield f"has {plain(rule.months)} months, which must be above 0"
    way = Direction.ANY
    if isinstance(rule, Window):
        if not feature.lower <= rule.to <= feature.upper or snap_value(rule.to, feature.step) != rule.to:
            yield f"ends at {plain(rule.to)}, which is no value of '{rule.feature}'"
        way = Direction.DOWN if rule.to == feature.lower else Direction.ANY
        way = Direction.UP if rule.to == feature.upper else way
    else:
        if rule.adds == 0:
            yield "adds 0, so it moves nothing"
        way = Direction.UP if rule.adds > 0 else Direction.DOWN
        follow = followers(policy)
        if odd := [name for name in rule.while_ if name in follow]:
            yield f"holds while '{odd[0]}' is something, but that feature follows others itself"
        elif any(condition.changed for condition in rule.while_.values()):
            yield "asks in 'while' for a change, which nobody has made yet"
        yield from _condition_faults(rule.while_, known)
    if {way, feature.direction} == {Direction.UP, Direction.DOWN}:
        yield f"moves '{rule.feature}' {way}, but by the schema it may only move {feature.direction}"


def _formula_faults(rule: Formula, known: Mapping[str, Feature]) -> Iterator[str]:
    feature = known[rule.feature]
    if bool(rule.equals) == (rule.table is not None):
        yield "needs either 'equals' or 'table'"
    elif rule.table is None:
        names = [rule.feature, *inputs_of(rule)]
        if odd := [name for name in names if known[name].is_categorical]:
            yield f"computes with '{odd[0]}', which has categories"
        elif asks_before(parse_expression(rule.equals)):
            yield "reads the applicant's own values with before(...), which only inequalities do"
        elif len(names) == 1:
            yield "reads no feature, so it computes nothing"
    else:
        yield from _table_faults(rule, feature, known[rule.table.feature])


def _table_faults(rule: Formula, feature: Feature, source: Feature) -> Iterator[str]:
    values = {} if rule.table is None else dict(rule.table.values)
    if not source.is_categorical:
        yield f"looks up '{source.name}', which has no categories"
    elif odd := sorted(set(source.categories) ^ set(values)):
        yield f"has a table that {'lacks' if odd[0] in source.categories else 'has the unknown'} category '{odd[0]}'"
    elif feature.is_categorical and rule.keep is not Keep.NONE:
        yield f"has '{feature.name}', which has categories, keep the {rule.keep}; set 'keep' to none"
    else:
        for value in values.values():
            if not _is_value(feature, value):
                yield f"has {value!r} in its table, which is no value of '{feature.name}'"
                return


def _is_value(feature: Feature, value: str | float) -> bool:
    if isinstance(value, str):
        return value in feature.categories
    return not feature.is_categorical and feature.least <= value <= feature.most


def _condition_faults(conditions: Conditions, known: Mapping[str, Feature]) -> Iterator[str]:
    for name, condition in conditions.items():
        feature, listed = known[name], [*(condition.in_ or ()), *(condition.not_in or ())]
        low, high = condition.at_least, condition.at_most
        if not written(condition):
            yield f"asks nothing of '{name}'"
        elif feature.is_categorical and (low is not None or high is not None):
            yield f"compares '{name}' with a number, but it has categories"
        elif low is not None and high is not None and low > high:
            yield f"asks '{name}' to be at least {plain(low)} and at most {plain(high)}"
        elif odd := [value for value in listed if isinstance(value, str) != feature.is_categorical]:
            yield f"lists {_show(odd[0])}, which is no value of '{name}'"
        elif odd := [value for value in listed if isinstance(value, str) and value not in feature.categories]:
            yield f"lists {_show(odd[0])}, which is no category of '{name}'"
        elif condition.in_ is not None and not set(condition.in_) - set(condition.not_in or ()):
            yield f"leaves '{name}' no value: what it may be is what it may not be"


def _show(value: str | float) -> str:
    return f"'{value}'" if isinstance(value, str) else plain(value)


def _inequality_faults(rule: Inequality, known: Mapping[str, Feature], policy: Policy) -> Iterator[str]:
    left, right = parse_inequality(rule.require)
    names = dict.fromkeys([*names_of(left), *names_of(right)])
    if odd := [name for name in names if known[name].is_categorical]:
        yield f"computes with '{odd[0]}', which has categories"
        return
    if not names:
        yield "names no feature"
    terms = linear_terms(Operation("-", (left, right)))
    if names and terms is not None:
        ends = {name: (known[name].least, known[name].most) for name in names}
        least = sum(min(factor * end for end in ends[name]) if name else factor for name, factor in terms.items())
        if least > 1e-9 * max(1.0, abs(least)):
            yield f"can never hold: within the bounds of its features '{rule.require}' is false"


def _twice(policy: Policy) -> Iterator[str]:
    rules = [rule for rule in policy.rules if isinstance(rule, Time | Window | Formula)]
    for first, second in combinations(rules, 2):
        if first.feature == second.feature:
            both = f"{policy.title(first)} and {policy.title(second)}"
            yield f"{both[0].upper()}{both[1:]} both say what '{first.feature}' becomes; keep one of them."
    named = [rule.name for rule in policy.rules if rule.name]
    if odd := [name for name in named if named.count(name) > 1]:
        yield f"The name '{odd[0]}' stands for two rules; give each its own."


def formula_order(policy: Policy) -> list[Formula]:
    """Formulas, each after those whose features it reads; those of a cycle are left out."""
    waiting = [rule for rule in policy.rules if isinstance(rule, Formula)]
    done: list[Formula] = []
    while True:
        open_features = {rule.feature for rule in waiting}
        ready = [rule for rule in waiting if not open_features & set(inputs_of(rule))]
        if not ready:
            return done
        done += ready
        waiting = [rule for rule in waiting if rule not in ready]


def _cycles(policy: Policy) -> Iterator[str]:
    try:
        done = formula_order(policy)
    except SchemaError:  # said already: the expression cannot be read
        return
    stuck = [rule for rule in policy.rules if isinstance(rule, Formula) and rule not in done]
    reads = {rule.feature: list(inputs_of(rule)) for rule in stuck}
    if not stuck:
        return
    path = [stuck[0].feature]
    while path[-1] not in path[:-1]:
        path.append(next(name for name in reads[path[-1]] if name in reads))
    circle = path[path.index(path[-1]) :]
    rule = next(rule for rule in stuck if rule.feature == circle[0])
    shown = " from ".join(f"'{name}'" for name in circle)
    yield f"The formulas go round in a circle, among them {policy.title(rule)}: {shown}."


def _clashes(policy: Policy) -> Iterator[str]:
    """Two implications of which the one applies wherever the other does, and which leave a feature no category."""
    rules = [rule for rule in policy.rules if isinstance(rule, Implies)]
    for first, second in combinations(rules, 2):
        for one, other in ((first, second), (second, first)):
            if not all(other.if_.get(name) == condition for name, condition in one.if_.items()):
                continue
            for name in sorted(set(one.then) & set(other.then)):
                if _disjoint(one.then[name], other.then[name]):
                    both = f"{policy.title(first)} and {policy.title(second)}"
                    yield f"{both[0].upper()}{both[1:]} leave '{name}' no value where both apply."
                    return


def _disjoint(one: Condition, other: Condition) -> bool:
    if one.in_ is not None and other.in_ is not None and not set(one.in_) & set(other.in_):
        return True
    if one.in_ is not None and other.not_in is not None and set(one.in_) <= set(other.not_in):
        return True
    low = max((end for end in (one.at_least, other.at_least) if end is not None), default=-math.inf)
    high = min((end for end in (one.at_most, other.at_most) if end is not None), default=math.inf)
    return low > high
