"""The constraints of a request as they are typed: income=20000:60000, purpose=car,home, age=up.

A name with a comma in it is quoted where several are listed, as in CSV: purpose="car, used",home.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from app.commands.options import listed
from models.data.policy import Policy
from models.data.policy_checks import check_policy
from models.data.schema import Direction, Feature, Schema
from models.errors import ConstraintError, SchemaError
from models.space.constraints import Range


def parse_ranges(schema: Schema, texts: Sequence[str]) -> dict[str, Range]:
    """F=LO:HI with open ends left empty, or F=A,B for a categorical feature."""
    ranges: dict[str, Range] = {}
    for text in texts:
        name, wanted = _pair(schema, text, "--range", "income=20000:60000 or purpose=car,home")
        if name in ranges:
            raise ConstraintError(f"--range names '{name}' twice; give it one range.")
        if name not in schema.names:
            known = ", ".join(schema.names)
            raise ConstraintError(f"--range names '{name}', which is no feature; the features are {known}.")
        ranges[name] = _range(schema.features[schema.index(name)], wanted)
    return ranges


def parse_directions(schema: Schema, texts: Sequence[str]) -> dict[str, Direction]:
    """F=up, F=down or F=any; the names are checked with the other constraints."""
    directions: dict[str, Direction] = {}
    for text in texts:
        name, way = _pair(schema, text, "--direction", "age=up")
        if way not in list(Direction):
            raise ConstraintError(f"--direction wants '{name}' to go '{way}'; choose from {', '.join(Direction)}.")
        if name in directions:
            raise ConstraintError(f"--direction names '{name}' twice; give it one direction.")
        directions[name] = Direction(way)
    return directions


def parse_most(text: str | None) -> int | str | None:
    """How many changes: a number, none for no limit, and what the schema says where nothing was typed."""
    if text is None:
        return "schema"
    if text.strip().lower() in ("none", "null", "all"):
        return None
    try:
        return int(text)
    except ValueError:
        raise ConstraintError(f"--max-changes is '{text}'; write a whole number, or none for no limit.") from None


def read_policy(path: Path, schema: Schema) -> Policy:
    """The action policy in a JSON file, checked with the schema."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SchemaError(f"The policy '{path}' cannot be read as JSON: {error}.") from error
    policy = Policy.from_json(document)
    check_policy(schema, policy)
    return policy


def _pair(schema: Schema, text: str, option: str, example: str) -> tuple[str, str]:
    """The name before the first equals sign, or the longest feature's name that stands there with signs of its own."""
    name, equals, value = text.partition("=")
    for known in sorted(schema.names, key=len):
        if text.startswith(f"{known}="):
            name, value = known, text[len(known) + 1 :]
    if not (name.strip() and equals and value.strip()):
        raise ConstraintError(f"{option} cannot read '{text}'; write it as {example}.")
    return name.strip(), value.strip()


def _range(feature: Feature, text: str) -> Range:
    if feature.is_categorical:
        return (text,) if text in feature.categories else listed(text)
    low, colon, high = text.partition(":")
    if not colon:
        raise ConstraintError(f"--range of '{feature.name}' is '{text}'; write its bounds as LO:HI, one may be empty.")
    return _number(feature, low), _number(feature, high)


def _number(feature: Feature, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise ConstraintError(f"--range of '{feature.name}' has the bound '{text}', which is not a number.") from None
