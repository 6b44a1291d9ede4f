"""What a record holds: its features in order (values, bounds, which way each may move), and the classes of the label.

A schema is inferred from a training frame (models/data/infer.py), adjusted by a user's overrides, kept with the model.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum

from ..errors import SchemaError
from .grid import MOST_STEPS, plain, snap_down, snap_up, snap_value
from .json_fields import read_choice, read_flag, read_mapping, read_number, read_text, read_texts

OVERRIDABLE = frozenset(
    {
        *("lower", "upper", "least", "most", "step", "smallest", "categories", "ordered", "order"),
        *("immutable", "protected", "direction", "nullable"),
    }
)


NUMBERS_ONLY = frozenset({"lower", "upper", "least", "most", "step", "smallest"})
OPTIONAL = frozenset({"least", "most", "order", "smallest"})


class FeatureKind(StrEnum):
    """How the values of a feature behave."""

    NUMERIC = "numeric"
    INTEGER = "integer"
    CATEGORICAL = "categorical"


class Direction(StrEnum):
    """Which way a feature may move; for an ordered categorical, along the order of its categories."""

    ANY = "any"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Feature:
    """One column. A protected feature is immutable too; the bounds of a categorical are those of its category index.

    lower, upper  between them lies what may be suggested, on the grid of `step`: where the training data lies, or wider
    least, most   between them lies what a record may hold, on the grid or not; by default the same. Inference leaves
                  room beyond what it saw, since the next applicant may be the richest
    smallest      the smallest change worth making: a number that would change by less stays as it is
    order         all categories from the first to the last, () where they have no order; where the feature is `ordered`
                  and no order is stated, it is that of its categories
    """

    name: str
    kind: FeatureKind
    lower: float = 0.0
    upper: float = 0.0
    step: float = 1.0
    categories: tuple[str, ...] = ()
    ordered: bool = False
    immutable: bool = False
    protected: bool = False
    direction: Direction = Direction.ANY
    nullable: bool = False
    least: float = math.nan
    most: float = math.nan
    order: tuple[str, ...] = ()
    smallest: float = 0.0

    def __post_init__(self) -> None:
        if self.protected:
            object.__setattr__(self, "immutable", True)
        if self.kind is FeatureKind.CATEGORICAL:
            self._check_categories()
            self._settle_order()
            last = len(self.categories) - 1.0
            for name, value in (("lower", 0.0), ("upper", last), ("step", 1.0), ("least", 0.0), ("most", last)):
                object.__setattr__(self, name, value)
        else:
            for name, value, default in (("least", self.least, self.lower), ("most", self.most, self.upper)):
                if math.isnan(value):
                    object.__setattr__(self, name, default)
            self._check_numbers()

    @property
    def is_categorical(self) -> bool:
        return self.kind is FeatureKind.CATEGORICAL

    @property
    def ranks(self) -> tuple[int, ...]:
        """Where each category stands in the order; for a feature without one, in the list of its categories."""
        return tuple((self.order or self.categories).index(category) for category in self.categories)

    def to_json(self) -> dict[str, object]:
        """A plain dict that json.dumps takes and `parse_feature` reads back unchanged."""
        texts = {"kind": self.kind.value, "direction": self.direction.value, "categories": list(self.categories)}
        entry = asdict(self) | texts | {"order": list(self.order)}
        if self.order in ((), self.categories):
            del entry["order"]  # `ordered` says it all
        if not self.smallest:
            del entry["smallest"]
        return entry

    def _check_categories(self) -> None:
        if len(self.categories) < 2 or len(set(self.categories)) < len(self.categories):
            found = ", ".join(self.categories) or "none"
            raise SchemaError(f"Feature '{self.name}' needs two or more distinct categories; it has {found}.")
        if self.direction is not Direction.ANY and not (self.ordered or self.order):
            raise SchemaError(
                f"Feature '{self.name}' has no order, so it cannot move only {self.direction}; "
                "state its 'order', or list its categories in order and set 'ordered' to true."
            )

    def _settle_order(self) -> None:
        """An ordered feature has an order, and one with an order is ordered."""
        if lacking := [category for category in self.categories if self.order and category not in self.order]:
            raise SchemaError(f"The order of '{self.name}' lacks {', '.join(lacking)}; it must name every category.")
        if unknown := [category for category in self.order if category not in self.categories]:
            known = ", ".join(self.categories)
            raise SchemaError(f"The order of '{self.name}' names '{unknown[0]}', but its categories are {known}.")
        if len(self.order) > len(self.categories):
            twice = next(category for category, times in Counter(self.order).items() if times > 1)
            raise SchemaError(f"The order of '{self.name}' names '{twice}' twice; name every category once.")
        object.__setattr__(self, "order", self.order or (self.categories if self.ordered else ()))
        object.__setattr__(self, "ordered", bool(self.order))

    def _check_numbers(self) -> None:
        name, lower, upper, step = self.name, self.lower, self.upper, self.step
        shown = f"{plain(lower)} to {plain(upper)}"
        if self.categories or self.ordered or self.order:
            raise SchemaError(f"Feature '{name}' is {self.kind}, so it has no categories; set its kind to categorical.")
        if not (math.isfinite(step) and step > 0):
            raise SchemaError(f"Feature '{name}' has the step {plain(step)}; give it a finite step above 0.")
        if self.kind is FeatureKind.INTEGER and step != int(step):
            raise SchemaError(f"Feature '{name}' is an integer, so its step {plain(step)} must be a whole number.")
        if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
            raise SchemaError(f"Feature '{name}' has the bounds {shown}; the lower must be less than the upper.")
        if not (math.isfinite(self.least) and math.isfinite(self.most) and self.least <= lower <= upper <= self.most):
            wide = f"{plain(self.least)} to {plain(self.most)}"
            raise SchemaError(f"Records of feature '{name}' may hold {wide}, which must include its bounds {shown}.")
        if not 0 <= self.smallest < math.inf:
            raise SchemaError(f"Feature '{name}' has the smallest change {plain(self.smallest)}; give 0 or more.")
        if max(abs(self.least), abs(self.most)) > MOST_STEPS * step:
            raise SchemaError(f"Feature '{name}' has the step {plain(step)}, too fine for its bounds; enlarge it.")
        for bound in (lower, upper):
            if snap_value(bound, step) != bound:
                reason = f"which is no multiple of its step {plain(step)}"
                raise SchemaError(f"Feature '{name}' has the bound {plain(bound)}, {reason}.")


def parse_feature(entry: Mapping[str, object]) -> Feature:
    """A feature from its plain form; every field must be there and of its type, but for those of `OPTIONAL`."""
    name = read_text(entry, "name", "a feature")
    if odd := sorted({field.name for field in fields(Feature)} ^ (set(entry) | OPTIONAL)):
        raise SchemaError(f"Feature '{name}' has a missing or unknown key '{odd[0]}'.")
    owner = f"feature '{name}'"
    return Feature(
        name=name,
        kind=FeatureKind(read_choice(entry, "kind", owner, list(FeatureKind))),
        lower=read_number(entry, "lower", owner),
        upper=read_number(entry, "upper", owner),
        step=read_number(entry, "step", owner),
        categories=read_texts(entry, "categories", owner),
        ordered=read_flag(entry, "ordered", owner),
        immutable=read_flag(entry, "immutable", owner),
        protected=read_flag(entry, "protected", owner),
        direction=Direction(read_choice(entry, "direction", owner, list(Direction))),
        nullable=read_flag(entry, "nullable", owner),
        least=read_number(entry, "least", owner) if "least" in entry else math.nan,
        most=read_number(entry, "most", owner) if "most" in entry else math.nan,
        order=read_texts(entry, "order", owner) if "order" in entry else (),
        smallest=read_number(entry, "smallest", owner) if "smallest" in entry else 0.0,
    )


def override_feature(feature: Feature, changes: Mapping[str, object]) -> Feature:
    """The feature with what the user says of it, as long as it still covers what was seen in training."""
    name = feature.name
    if "kind" in changes:
        raise SchemaError(f"The kind of '{name}' can be set only while the schema is inferred from its data.")
    if unknown := sorted(set(changes) - OVERRIDABLE):
        known = ", ".join(sorted({"kind", *OVERRIDABLE}))
        raise SchemaError(f"The override of '{name}' has the unknown key '{unknown[0]}'; the keys are {known}.")
    if feature.is_categorical and (misplaced := sorted(NUMBERS_ONLY & set(changes))):
        raise SchemaError(f"Feature '{name}' is categorical, so it has no '{misplaced[0]}'.")
    if changes.get("immutable") is False and changes.get("protected", feature.protected) is True:
        raise SchemaError(f"Feature '{name}' is protected, so it cannot be mutable; set 'protected' to false as well.")
    if changes.get("ordered") is False and changes.get("order"):
        raise SchemaError(f"Feature '{name}' has an 'order', so 'ordered' cannot be false; leave one of them out.")
    step = read_number(changes, "step", f"feature '{name}'") if "step" in changes else feature.step
    observed = feature.to_json()
    if "order" in changes:
        observed["ordered"] = False  # an empty order lifts one that was seen
    if {"categories", "ordered"} & set(changes):
        observed.pop("order", None)
    if feature.protected and changes.get("protected") is False:
        observed["immutable"] = False
    if step > 0 and math.isfinite(step):
        lower, upper = snap_value(feature.lower, step), snap_value(feature.upper, step)
        widened = {"least": min(lower, feature.least), "most": max(upper, feature.most)}
        observed |= {"lower": lower, "upper": upper} | widened
    changed = parse_feature(observed | _stated_bounds(feature, changes))
    _check_covers(parse_feature(observed | {"step": step}), changed)
    return changed


def _stated_bounds(feature: Feature, changes: Mapping[str, object]) -> dict[str, object]:
    """The changes; a bound that somebody states is one that no record may pass, unless `least` or `most` say else."""
    stated, owner = dict(changes), f"feature '{feature.name}'"
    for narrow, wide, inward in (("lower", "least", snap_up), ("upper", "most", snap_down)):
        if narrow in changes:
            bound = read_number(changes, narrow, owner)
            stated.setdefault(wide, bound)
            if "step" not in changes and math.isfinite(bound) and abs(bound) <= MOST_STEPS * feature.step:
                stated[narrow] = inward(bound, feature.step)  # the step was inferred, so nobody has to know it
    return stated


def _check_covers(observed: Feature, changed: Feature) -> None:
    if observed.nullable and not changed.nullable:
        fact = f"Values of '{observed.name}' are missing in the training data, so 'nullable' cannot be false"
        raise SchemaError(f"{fact}; leave it out, or drop those rows.")
    if stray := sorted(set(changed.categories) ^ set(observed.categories)):
        listed = ", ".join(stray)
        raise SchemaError(f"The categories of '{observed.name}' may be reordered, not added or left out: {listed}.")
    if changed.lower > observed.lower or changed.upper < observed.upper:
        raise SchemaError(
            f"The bounds {plain(changed.lower)} to {plain(changed.upper)} of '{observed.name}' exclude training data, "
            f"which reaches from {plain(observed.lower)} to {plain(observed.upper)}; widen them or drop those rows."
        )


JSON_VERSION = 1


@dataclass(frozen=True, slots=True)
class Schema:
    """The features in the order of the record matrix, and the classes in the order of the probabilities.

    max_changes: an answer changes so many features at the most, unless a request says otherwise; None: no limit
    """

    features: tuple[Feature, ...]
    label: str
    classes: tuple[str, ...]
    max_changes: int | None = None

    def __post_init__(self) -> None:
        names = [feature.name for feature in self.features]
        if not names:
            raise SchemaError("A schema needs at least one feature.")
        for name, times in Counter(names).items():
            if times > 1 or name == self.label:
                raise SchemaError(f"The name '{name}' is used twice; every feature and the label need their own.")
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise SchemaError(f"Label '{self.label}' needs two or more distinct classes, not {list(self.classes)}.")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    def index(self, name: str) -> int:
        """The column of a feature in the record matrix."""
        if name not in self.names:
            raise SchemaError(f"There is no feature '{name}'; the features are {', '.join(self.names)}.")
        return self.names.index(name)

    def with_overrides(self, overrides: Mapping[str, object]) -> "Schema":
        """This schema with what the user says of it.

        >>> age = Feature("age", FeatureKind.INTEGER, lower=18, upper=80)
        >>> schema = Schema((age,), "approved", ("no", "yes"))
        >>> schema.with_overrides({"features": {"age": {"direction": "up", "upper": 99}}}).features[0].upper
        99.0
        """
        changed = list(self.features)
        for name, changes in override_table(overrides).items():
            position = self.index(name)
            changed[position] = override_feature(changed[position], changes)
        most = read_most_changes(overrides) if "max_changes" in overrides else self.max_changes
        return replace(self, features=tuple(changed), max_changes=most)

    def to_json(self) -> dict[str, object]:
        """A plain dict that json.dumps takes and `from_json` reads back unchanged."""
        features = [feature.to_json() for feature in self.features]
        limit = {} if self.max_changes is None else {"max_changes": self.max_changes}
        whole = {"version": JSON_VERSION, "label": self.label, "classes": list(self.classes), "features": features}
        return whole | limit

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> "Schema":
        if document.get("version") != JSON_VERSION:
            found = document.get("version")
            raise SchemaError(f"This schema is of version {found!r}; this program reads version {JSON_VERSION}.")
        features = document.get("features")
        if not isinstance(features, list):
            raise SchemaError("A schema document needs a list 'features'.")
        parsed = tuple(parse_feature(read_mapping(entry, "an entry of 'features'")) for entry in features)
        label, classes = read_text(document, "label", "the schema"), read_texts(document, "classes", "the schema")
        return cls(parsed, label, classes, read_most_changes(document))


def override_table(overrides: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """The overrides of each feature, by its name; the names and the keys are not checked yet."""
    if unknown := sorted(set(overrides) - {"features", "max_changes"}):
        raise SchemaError(f"Overrides have the unknown key '{unknown[0]}'; they have 'features' and 'max_changes'.")
    table = read_mapping(overrides.get("features", {}), "'features' of the overrides")
    return {name: read_mapping(changes, f"the override of '{name}'") for name, changes in table.items()}


def read_most_changes(document: Mapping[str, object]) -> int | None:
    """How many features an answer may change, by a schema or its overrides; None: no limit"""
    most = document.get("max_changes")
    if most is not None and (type(most) is not int or most < 1):
        fact = f"'max_changes' is {most!r}"
        raise SchemaError(f"{fact}; it must be a whole number of at least 1, or null for no limit.")
    return most
