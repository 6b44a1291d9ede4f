"""Why a record has no answer: the constraints that are named, with gains that are known."""

from dataclasses import replace

import numpy as np
import pytest

from models.config import SearchMethodConfig
from models.data.schema import Schema
from models.model import RecourseModel
from models.search.answers import Binding
from models.search.candidates import measure
from models.search.explanations import binding_constraints, diagnose
from models.space.constraints import Constraints, compile_constraints
from tests.fakes.plane import linear_model, plane
from tests.models.tiny import feasible_by_schema

YES, HOME = np.ones(1, dtype=np.int64), np.zeros((1, 5))
NAMES = ("much", "some", "little", "protected", "free")
STRIDE = 0.3
"""The furthest that one move of the search goes from where a number is, in standard deviations."""


def sigmoid(logit: float) -> float:
    return float(1 / (1 + np.exp(-logit)))


def named(frozen: frozenset[str], slope: list[float], bias: float = -2.0) -> tuple[Binding, ...]:
    model = model_with_a_protected_feature(slope, bias)
    feasible = compile_constraints(model.encoder.schema, Constraints(immutable=frozen), HOME)
    best = measure(model, HOME[:, None], YES, feasible_by_schema(model.encoder, HOME))
    return binding_constraints(model, best, YES, feasible)[0]


def model_with_a_protected_feature(slope: list[float], bias: float) -> RecourseModel:
    encoder = plane(*NAMES)
    features = tuple(replace(each, protected=each.name == "protected") for each in encoder.schema.features)
    schema = Schema(features, encoder.schema.label, encoder.schema.classes)
    return linear_model(replace(encoder, schema=schema), slope, bias)


def test_frozen_features_are_named_by_what_they_would_gain() -> None:
    """A feature that would gain next to nothing is no hindrance, one that may change is none either."""
    slope = [2.0, 1.0, 0.2, 5.0, 3.0]
    binding = named(frozenset(NAMES[:4]), slope)
    assert [entry.feature for entry in binding] == ["much", "some"]
    gains = [sigmoid(-2.0 + each * STRIDE) - sigmoid(-2.0) for each in slope[:3]]
    assert [entry.gain for entry in binding] == pytest.approx(gains[:2], abs=1e-5)
    assert 0 < gains[2] < SearchMethodConfig().least_gain


def test_at_most_three_are_named_those_that_gain_most_first() -> None:
    binding = named(frozenset(NAMES), [1.0, 1.5, 2.0, 9.0, 2.5])
    assert [entry.feature for entry in binding] == ["free", "little", "some"]
    assert len(binding) == SearchMethodConfig().named_constraints


def test_a_limit_binds_where_the_gain_lies_beyond_it() -> None:
    model = linear_model(plane("x", "y"), [2.0, 2.0], -2.0)
    home = np.zeros((1, 2))
    constraints = Constraints(ranges={"x": (-1.0, 0.1), "y": (-1.0, 5.0)})
    feasible = compile_constraints(model.encoder.schema, constraints, home)
    best = measure(model, home[:, None], YES, feasible_by_schema(model.encoder, home))
    assert [entry.feature for entry in binding_constraints(model, best, YES, feasible)[0]] == ["x"]


@pytest.mark.parametrize(
    ("agreement", "verified", "dissenting", "binding", "advice"),
    [
        (0.3, True, ("mild",), (Binding("income", 0.2),), "Let income change"),
        (0.0, True, ("mild",), (), "No model accepts"),
        (0.5, True, ("mild", "odd"), (), "mild, odd dissent"),
        (0.4, False, (), (), "Allow more candidates"),
    ],
)
def test_the_advice_names_what_would_help(
    agreement: float, verified: bool, dissenting: tuple[str, ...], binding: tuple[Binding, ...], advice: str
) -> None:
    diagnosis = diagnose(agreement, verified, dissenting, binding, wanted=0.8)
    assert advice in diagnosis.advice and diagnosis.binding == binding


def test_what_is_frozen_is_named_where_nothing_may_change_and_a_price_that_allows_nothing_is_told() -> None:
    several = diagnose(0.5, True, ("mild",), (Binding("income", 0.2),), 0.8, frozen=("income", "savings"))
    assert "income, savings are frozen" in several.advice
    assert "income is frozen" in diagnose(0.5, True, (), (), 0.8, frozen=("income",)).advice
    assert "lower the price" in diagnose(0.6, False, (), (), 0.5, better=False).advice
