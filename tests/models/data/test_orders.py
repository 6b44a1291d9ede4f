"""Orders that the names of categories say, and names that say none."""

import numpy as np
import pandas as pd
import pytest

from models.data.infer import infer_schema
from models.data.orders import obvious_order
from models.data.schema import Feature


@pytest.mark.parametrize(
    "ordered",
    [
        ("none", "low", "high"),
        ("Low", "Medium", "High"),
        ("very_low", "low", "MODERATE", "high", "Very high"),
        ("small", "medium", "large"),
        ("XS", "S", "M", "L", "XL"),
        ("poor", "fair", "good", "very good", "excellent"),
        ("never", "seldom", "often"),
        ("Less than 25", "25 - 45", "Greater than 45"),
        ("<1 year", "1-3 years", "3-10 years", ">10 years"),
        ("0", "1", "2", "3+"),
        ("[0, 10)", "[10, 20)", "[20, 30]"),
        ("9-12", "13-20", "100-200"),
    ],
)
def test_names_that_say_their_order(ordered: tuple[str, ...]) -> None:
    for seed in range(3):
        assert obvious_order(np.random.default_rng(seed).permutation(np.array(ordered)).tolist()) == ordered


@pytest.mark.parametrize(
    "nominal",
    [
        ("car", "home", "business"),
        ("no", "yes"),
        ("m", "s"),
        ("low", "high", "unknown"),
        ("low", "Low "),
        ("1", "2", "3"),
        ("10-20", "15-30"),
        ("20-10", "30-40"),
        ("12345-678", "98765-432"),
        ("A1", "A2", "A3"),
        ("Bachelors", "Masters", "HS-grad", "11th"),
        ("never-married", "married", "divorced"),
        ("monday", "tuesday", "wednesday"),
    ],
)
def test_names_that_say_none(nominal: tuple[str, ...]) -> None:
    assert obvious_order(nominal) == ()


def inferred(values: list[str], override: dict[str, object] | None = None) -> Feature:
    frame = pd.DataFrame({"x": values * 6, "y": ["no", "yes", "no"] * (2 * len(values))})
    return infer_schema(frame, "y", {"features": {"x": override or {}}}).features[0]


def test_an_obvious_order_is_inferred_and_can_be_lifted_or_stated_otherwise() -> None:
    feature = inferred(["high", "low", "none"])
    assert feature.ordered and feature.order == ("none", "low", "high")
    assert feature.categories == ("high", "low", "none")
    assert not inferred(["high", "low", "none"], {"ordered": False}).order
    assert not inferred(["high", "low", "none"], {"order": []}).ordered
    assert inferred(["high", "low", "none"], {"order": ["low", "none", "high"]}).order == ("low", "none", "high")
    assert not inferred(["car", "home", "boat"]).ordered
