"""Constraints as they are typed, for features and categories of any name."""

import pytest

from app.commands.options import listed
from app.commands.requests import parse_directions, parse_ranges
from models.data.schema import Direction, Feature, FeatureKind, Schema
from models.errors import ConstraintError

PURPOSE = Feature("purpose", FeatureKind.CATEGORICAL, categories=("car, used", "home", "a=b"))
SCHEMA = Schema(
    (Feature("a", FeatureKind.INTEGER, 0, 9), Feature("a=b", FeatureKind.INTEGER, 0, 9), PURPOSE),
    "label",
    ("no", "yes"),
)


def test_a_name_may_hold_an_equals_sign() -> None:
    assert parse_ranges(SCHEMA, ["a=b=1:5", "a=2:"]) == {"a=b": (1.0, 5.0), "a": (2.0, None)}
    assert parse_ranges(SCHEMA, ["purpose=a=b"]) == {"purpose": ("a=b",)}
    assert parse_directions(SCHEMA, ["a=b=up", " a = down"]) == {"a=b": Direction.UP, "a": Direction.DOWN}
    with pytest.raises(ConstraintError, match="cannot read 'a=b='"):
        parse_ranges(SCHEMA, ["a=b="])


def test_a_category_may_hold_a_comma() -> None:
    assert parse_ranges(SCHEMA, ["purpose=car, used"]) == {"purpose": ("car, used",)}
    assert parse_ranges(SCHEMA, ['purpose="car, used", home']) == {"purpose": ("car, used", "home")}


def test_lists_are_read_as_csv() -> None:
    assert listed("a, b ,,c") == ("a", "b", "c")
    assert listed('"debt, monthly",age') == ("debt, monthly", "age")
    assert listed('height 5", two\nlines') == ('height 5"', "two\nlines")
    assert listed("") == ()
