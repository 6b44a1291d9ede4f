"""What a record holds: its features in order, and the classes of the label.

`Feature`, `Kind` and `Direction` are defined in models/feature.py and offered here too: they are part of a schema.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from models.documents import read_mapping, read_text, read_texts
from models.errors import SchemaError
from models.feature import Direction, Feature, Kind, override_feature, parse_feature

__all__ = ["Direction", "Feature", "Kind", "Schema", "override_table"]

JSON_VERSION = 1


@dataclass(frozen=True, slots=True)
class Schema:
    """The features in the order of the record matrix, and the classes in the order of the probabilities."""

    features: tuple[Feature, ...]
    label: str
    classes: tuple[str, ...]

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
        """This schema with what the user says of it, as in {"features": {"age": {"direction": "up", "upper": 99}}}."""
        changed = list(self.features)
        for name, changes in override_table(overrides).items():
            position = self.index(name)
            changed[position] = override_feature(changed[position], changes)
        return replace(self, features=tuple(changed))

    def to_json(self) -> dict[str, object]:
        """A plain dict that json.dumps takes and `from_json` reads back unchanged."""
        features = [feature.to_json() for feature in self.features]
        return {"version": JSON_VERSION, "label": self.label, "classes": list(self.classes), "features": features}

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> "Schema":
        if document.get("version") != JSON_VERSION:
            found = document.get("version")
            raise SchemaError(f"This schema is of version {found!r}; this program reads version {JSON_VERSION}.")
        features = document.get("features")
        if not isinstance(features, list):
            raise SchemaError("A schema document needs a list 'features'.")
        parsed = tuple(parse_feature(read_mapping(entry, "an entry of 'features'")) for entry in features)
        return cls(parsed, read_text(document, "label", "the schema"), read_texts(document, "classes", "the schema"))


def override_table(overrides: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """The overrides of each feature, by its name; the names and the keys are not checked yet."""
    if unknown := sorted(set(overrides) - {"features"}):
        raise SchemaError(f"Overrides have the unknown key '{unknown[0]}'; the only one is 'features'.")
    table = read_mapping(overrides.get("features", {}), "'features' of the overrides")
    return {name: read_mapping(changes, f"the override of '{name}'") for name, changes in table.items()}
