"""The action policy: what a person, a lender or time can do about a record (docs/POLICY.md).

A policy belongs to no model: it may be replaced without training anew. It is a small language in JSON, and the
dataclasses here are its grammar. `read` turns JSON into them, one sentence for each mistake, and `json_schema`
publishes them. Whether a policy fits a schema is asked in models/data/policy_checks.py, and what it permits in
models/space/actions.py.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from functools import cache, cached_property, partial
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeAlias, Union, get_args, get_origin, get_type_hints

from ..errors import SchemaError
from .schema import Direction

FORMAT = 1
MOST_RULES = 1000
Value: TypeAlias = str | float
"""A category, or a number."""


class Lever(StrEnum):
    """Who can move a feature."""

    APPLICANT = "applicant"
    LENDER = "lender"
    TIME = "time"
    NOBODY = "nobody"


class Keep(StrEnum):
    """What a derived feature keeps of a record whose own value is not what the formula says."""

    DIFFERENCE = "difference"
    RATIO = "ratio"
    NONE = "none"


class Falls(StrEnum):
    """How what happened within a window leaves it."""

    AT_END = "at_end"
    EVENLY = "evenly"


@dataclass(frozen=True, slots=True)
class Multiples:
    """The multiples of a step, moved by an offset."""

    step: Annotated[float, "How far apart the values are, above 0."]
    offset: Annotated[float, "One of the values."] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturePolicy:
    """What may become of one feature."""

    lever: Annotated[
        tuple[Lever, ...] | None,
        "Who can move it. By default the applicant; nobody where it is immutable or past, time where a rule of "
        "time moves it.",
    ] = None
    order: Annotated[tuple[str, ...], "All its categories, lowest first."] = ()
    move: Annotated[
        Direction,
        "Which way it may move, numbers by size and categories by their order.",
    ] = Direction.ANY
    transitions: Annotated[
        Mapping[str, tuple[str, ...]] | None,
        "From a category to those that it may become. A category that is not listed stays.",
    ] = None
    past: Annotated[bool, "A fact that only time changes: it stays but for rules of time."] = False
    lower: Annotated[float | None, "The least number to suggest."] = None
    upper: Annotated[float | None, "The largest number to suggest."] = None
    grid: Annotated[Multiples | None, "The only numbers to suggest."] = None
    codes: Annotated[
        Mapping[str, str],
        "Numbers that are no amounts but reasons for a missing value, each with its reason.",
    ] = field(default_factory=dict)
    leave_codes: Annotated[bool, "Whether a record that holds a code may get a number instead."] = False
    smallest_change: Annotated[float | None, "A change of less is none."] = None
    largest_change: Annotated[float | None, "It moves by this at most."] = None
    largest_share: Annotated[float | None, "It moves by this share of the applicant's own number at most."] = None
    weight: Annotated[float, "How hard a change is, above 0; 1 is usual."] = 1.0
    label: Annotated[str, "Its name in sentences."] = ""
    unit: Annotated[str, "Its unit in sentences."] = ""
    proposed: Annotated[tuple[str, ...], "Which of these keys were proposed from data."] = ()

    @property
    def code_numbers(self) -> tuple[float, ...]:
        return tuple(sorted(float(code) for code in self.codes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a feature has to be; where several are given, all of them."""

    in_: Annotated[tuple[Value, ...] | None, "One of these."] = None
    not_in: Annotated[tuple[Value, ...] | None, "None of these; a missing value is none of them."] = None
    at_least: Annotated[float | None, "A number of at least this."] = None
    at_most: Annotated[float | None, "A number of at most this."] = None
    changed: Annotated[bool | None, "Whether it differs from the applicant's own value."] = None


Conditions: TypeAlias = Mapping[str, Condition]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What all rules may say beside what they demand."""

    KIND: ClassVar[str] = ""
    name: Annotated[str, "What errors and diagnoses call it."] = ""
    note: Annotated[str, "Why, or where it is from."] = ""
    proposed: Annotated[bool, "Whether it was proposed from data."] = False


@dataclass(frozen=True, kw_only=True)
class Time(Rule):
    """A number that moves as months pass."""

    KIND: ClassVar[str] = "time"
    feature: Annotated[str, "The number that moves."]
    adds: Annotated[float, "By how much, up or down."]
    months: Annotated[float, "In so many months."] = 1.0
    while_: Annotated[Conditions, "Only for who meets this before and after."] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Window(Rule):
    """A number that tells what happened within so many months: what is older leaves it."""

    KIND: ClassVar[str] = "window"
    feature: Annotated[str, "The number, such as a count."]
    months: Annotated[float, "How long the window is."]
    to: Annotated[float, "What it is when nothing happened."] = 0.0
    falls: Annotated[
        Falls,
        "at_end: nobody knows when it happened, so nothing is promised before the window has passed. evenly: what "
        "happened was spread evenly over the window.",
    ] = Falls.AT_END


@dataclass(frozen=True, kw_only=True)
class Implies(Rule):
    """Where all of `if` holds, all of `then` must."""

    KIND: ClassVar[str] = "implies"
    if_: Annotated[Conditions, "By feature."]
    then: Annotated[Conditions, "By feature."]


@dataclass(frozen=True, kw_only=True)
class Inequality(Rule):
    """An inequality between expressions."""

    KIND: ClassVar[str] = "inequality"
    require: Annotated[str, "Such as 'debts <= 0.4 * income', or 'savings <= before(savings) + 5000'."]


@dataclass(frozen=True, slots=True)
class Table:
    """A value for each category of a feature."""

    feature: Annotated[str, "The feature that is looked up, with categories."]
    values: Annotated[Mapping[str, Value], "A value for each of its categories."]


@dataclass(frozen=True, kw_only=True)
class Formula(Rule):
    """A derived feature: it follows from others and is never advised."""

    KIND: ClassVar[str] = "formula"
    feature: Annotated[str, "The feature that follows."]
    equals: Annotated[str, "An expression such as '12 * loan / months / income'."] = ""
    table: Annotated[Table | None, "Or a value for each category of another feature."] = None
    keep: Annotated[
        Keep,
        "What stays of a record whose own value is not the formula's: the difference to it, the ratio to it, or none.",
    ] = Keep.DIFFERENCE


@dataclass(frozen=True, kw_only=True)
class AtMostOne(Rule):
    """Features of which at most one changes."""

    KIND: ClassVar[str] = "at_most_one"
    features: Annotated[tuple[str, ...], "Two or more; those that time moves are one together."]


KINDS: Mapping[str, type[Rule]] = {kind.KIND: kind for kind in (Time, Window, Implies, Inequality, Formula, AtMostOne)}


@dataclass(frozen=True)
class Policy:
    """What may become of each feature, and the rules between them."""

    features: Annotated[Mapping[str, FeaturePolicy], "By the feature's name; the others are as the schema says."]
    rules: Annotated[tuple[Rule, ...], "In any order."]
    name: Annotated[str, "What it is called."] = ""

    @classmethod
    def from_json(cls, document: object) -> "Policy":
        """A policy as a person wrote it; SchemaError in one sentence. Whether it fits a schema is not asked here."""
        table = _object(document, "the policy")
        if table.get("format") != FORMAT:
            raise SchemaError(f"The policy needs 'format': {FORMAT}, not {table.get('format')!r}.")
        if unknown := sorted(set(table) - {"format", "name", "features", "rules"}):
            raise SchemaError(
                f"The policy has the unknown key '{unknown[0]}'; its keys are features, format, name, rules."
            )
        features = _object(table.get("features", {}), "'features' of the policy")
        rules = table.get("rules", [])
        if not isinstance(rules, list) or len(rules) > MOST_RULES:
            raise SchemaError(f"Expected 'rules' of the policy to be a list of at most {MOST_RULES} rules.")
        return cls(
            features={name: read(FeaturePolicy, entry, f"feature '{name}'") for name, entry in features.items()},
            rules=tuple(_read_rule(entry, position) for position, entry in enumerate(rules, start=1)),
            name=read(str, table.get("name", ""), "'name' of the policy"),
        )

    def to_json(self) -> dict[str, object]:
        """A plain dict that json.dumps takes and `from_json` reads back unchanged; nothing that is the default."""
        rules = [{"rule": rule.KIND, **written(rule)} for rule in self.rules]
        features = {name: written(feature) for name, feature in self.features.items()}
        named = {"name": self.name} if self.name else {}
        return {"format": FORMAT, **named, "features": features, "rules": rules}

    def __hash__(self) -> int:
        return hash(self.version)

    @cached_property
    def version(self) -> str:
        """What tells this policy from every other: a hash of all that it says."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return f"policy-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def of(self, name: str) -> FeaturePolicy:
        return self.features.get(name, FeaturePolicy())

    def title(self, rule: Rule) -> str:
        """How sentences name a rule: its name, or its kind, with its place."""
        place = next(place for place, other in enumerate(self.rules, start=1) if other is rule)
        return f"rule {place} ({rule.name or rule.KIND})"

    def without_proposed(self) -> "Policy":
        """What people wrote of it: nothing that was proposed from data."""
        kept = {}
        for name, feature in self.features.items():
            kept[name] = replace(
                feature, proposed=(), **{key: _default(FeaturePolicy, key) for key in feature.proposed}
            )
        return Policy(kept, tuple(rule for rule in self.rules if not rule.proposed), self.name)

    def over(self, other: "Policy") -> "Policy":
        """This policy, with what the other one says where this one is silent; of a feature, key by key."""
        merged = dict(other.features)
        for name, mine in self.features.items():
            theirs = written(other.of(name)) | written(mine)
            marks = [key for key in other.of(name).proposed if key not in written(mine)]
            merged[name] = read(FeaturePolicy, theirs | {"proposed": [*mine.proposed, *marks]}, f"feature '{name}'")
        known = {json.dumps(_demand(rule), sort_keys=True) for rule in self.rules}
        more = [rule for rule in other.rules if json.dumps(_demand(rule), sort_keys=True) not in known]
        return Policy(merged, (*self.rules, *more), self.name or other.name)

    def parts(self) -> tuple[str, ...]:
        """What can be lifted: each rule, and each key of each feature that restricts it."""
        kept = ("weight", "label", "unit", "proposed", "smallest_change")
        keys = [
            f"{key} of '{name}'" for name, entry in self.features.items() for key in written(entry) if key not in kept
        ]
        return (*keys, *map(self.title, self.rules))

    def without(self, parts: frozenset[str]) -> "Policy":
        """With some of `parts` lifted."""
        features = {}
        for name, entry in self.features.items():
            lifted = [key for key in written(entry) if f"{key} of '{name}'" in parts]
            features[name] = replace(entry, **{key: _default(FeaturePolicy, key) for key in lifted})
        return Policy(features, tuple(rule for rule in self.rules if self.title(rule) not in parts), self.name)


def _demand(rule: Rule) -> dict[str, object]:
    """What a rule demands, whatever it is called."""
    said_beside = {"name", "note", "proposed"}
    return {"rule": rule.KIND, **{key: value for key, value in written(rule).items() if key not in said_beside}}


def _read_rule(entry: object, position: int) -> Rule:
    table = dict(_object(entry, f"rule {position}"))
    kind = table.pop("rule", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"Rule {position} is of the kind {kind!r}; the kinds are {', '.join(KINDS)}.")
    name = table.get("name") or kind
    rule: Rule = read(KINDS[kind], table, f"rule {position} ({name})")
    return rule


def _object(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise SchemaError(f"Expected {what} to be an object with text keys, not {value!r}.")
    return value


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of an object of the language: its field, its type, what it means, and what makes its default."""

    field: str
    kind: Any
    doc: str
    default: Callable[[], Any] | None


@cache
def _grammar(kind: type) -> Mapping[str, _Key]:
    """The keys of a dataclass; `if_` is "if", which Python keeps for itself."""
    hints, annotated = get_type_hints(kind), get_type_hints(kind, include_extras=True)
    found = {}
    for entry in fields(kind):
        default: Callable[[], Any] | None = None
        if entry.default is not MISSING:
            default = partial(_same, entry.default)
        elif entry.default_factory is not MISSING:
            default = entry.default_factory
        doc = annotated[entry.name].__metadata__[0]
        found[entry.name.removesuffix("_")] = _Key(entry.name, hints[entry.name], doc, default)
    return found


def _same(value: object) -> object:
    return value


def _default(kind: type, key: str) -> Any:  # noqa: ANN401 - of any key
    make = _grammar(kind)[key].default
    return MISSING if make is None else make()


def read(kind: Any, value: object, where: str) -> Any:  # noqa: ANN401 - whatever type is asked for
    """A value of a JSON document as `kind`, a type of this language; SchemaError with `where` it stands."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _read_union([arg for arg in args if arg is not type(None)], value, where)
    if origin is tuple:
        listed = [value] if args[0] is Lever and isinstance(value, str) else value
        if not isinstance(listed, list):
            raise SchemaError(f"Expected {where} to be a list, not {value!r}.")
        return tuple(read(args[0], entry, f"an entry of {where}") for entry in listed)
    if origin is not None:  # a Mapping
        table = _object(value, where)
        return {key: read(args[1], entry, f"'{key}' of {where}") for key, entry in table.items()}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if not isinstance(value, str) or value not in list(kind):
            raise SchemaError(f"Expected {where} to be one of {', '.join(kind)}, not {value!r}.")
        return kind(value)
    return _read_plain(kind, value, where) if kind in (str, bool, float) else _read_fields(kind, value, where)


def _read_union(kinds: list[Any], value: object, where: str) -> Any:  # noqa: ANN401 - whatever type is asked for
    if len(kinds) == 1:
        return read(kinds[0], value, where)
    if not isinstance(value, str) and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise SchemaError(f"Expected {where} to be text or a number, not {value!r}.")
    return read(str if isinstance(value, str) else float, value, where)


def _read_plain(kind: type, value: object, where: str) -> str | bool | float:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) < 1e100:
            return float(value)
    elif kind is not float and isinstance(value, kind):
        return value  # type: ignore[return-value]
    wanted = {str: "text", bool: "true or false", float: "a finite number"}[kind]
    raise SchemaError(f"Expected {where} to be {wanted}, not {value!r}.")


def _read_fields(kind: type, value: object, where: str) -> object:
    table, grammar = _object(value, where), _grammar(kind)
    owner = where[0].upper() + where[1:]
    if unknown := sorted(set(table) - set(grammar)):
        raise SchemaError(f"{owner} has the unknown key '{unknown[0]}'; its keys are {', '.join(sorted(grammar))}.")
    if absent := [key for key, entry in grammar.items() if key not in table and entry.default is None]:
        raise SchemaError(f"{owner} has no '{absent[0]}': {grammar[absent[0]].doc}")
    parts = {key: read(grammar[key].kind, part, f"'{key}' of {where}") for key, part in table.items()}
    return kind(**{grammar[key].field: part for key, part in parts.items()})


def written(entry: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of the language
    """A dataclass of the language as JSON, without what is the default."""
    kind: type = type(entry)
    given = {key: getattr(entry, part.field) for key, part in _grammar(kind).items()}
    return {key: _plain(value) for key, value in given.items() if value != _default(kind, key)}


def _plain(value: object) -> object:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return written(value) if hasattr(value, "__dataclass_fields__") else value


def json_schema() -> dict[str, object]:
    """The language as a JSON Schema (draft 2020-12), as docs/policy.schema.json publishes it."""
    rules = []
    for name, kind in KINDS.items():
        entry = _type_schema(kind)
        properties = {"rule": {"const": name}, **entry["properties"]}
        rules.append(entry | {"required": ["rule", *entry.get("required", [])], "properties": properties})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Action policy",
        "description": "What a person, a lender or time can do about a record.",
        "type": "object",
        "required": ["format"],
        "additionalProperties": False,
        "properties": {
            "format": {"const": FORMAT},
            "name": {"type": "string"},
            "features": {"type": "object", "additionalProperties": {"$ref": "#/$defs/FeaturePolicy"}},
            "rules": {"type": "array", "maxItems": MOST_RULES, "items": {"oneOf": rules}},
        },
        "$defs": {kind.__name__: _type_schema(kind) for kind in (FeaturePolicy, Multiples, Condition, Table)},
    }


def _type_schema(kind: type) -> dict[str, Any]:
    grammar = _grammar(kind)
    properties = {key: _value_schema(entry.kind) | {"description": entry.doc} for key, entry in grammar.items()}
    required = [key for key, entry in grammar.items() if entry.default is None]
    found: dict[str, Any] = {"type": "object", "description": (kind.__doc__ or "").strip()}
    found |= {"required": required} if required else {}
    return found | {"additionalProperties": False, "properties": properties}


def _value_schema(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - any type of the language
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        kinds = [arg for arg in args if arg is not type(None)]
        return _value_schema(kinds[0]) if len(kinds) == 1 else {"type": ["string", "number"]}
    if origin is tuple:
        listed = {"type": "array", "items": _value_schema(args[0])}
        return {"anyOf": [_value_schema(Lever), listed]} if args[0] is Lever else listed
    if origin is not None:
        return {"type": "object", "additionalProperties": _value_schema(args[1])}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"enum": [str(choice) for choice in kind]}
    plain_types = {str: "string", bool: "boolean", float: "number"}
    return {"type": plain_types[kind]} if kind in plain_types else {"$ref": f"#/$defs/{kind.__name__}"}
