"""Slides: along the slope from home, as far as the price says, and never out of what is allowed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.arrays import Records
from models.config import LocalSearchConfig
from models.data.schema import Direction, Feature, FeatureKind, Schema
from models.search.local_search import linearised_steps
from models.search.moves import MoveContext
from models.search.scoring import LogitGradient
from models.space.constraints import Constraints, compile_constraints, violations
from models.space.encoding import Encoder
from tests.models.tiny import Task


def plane() -> Encoder:
    """Two numbers of mean 0 and deviation 1, on a fine grid."""
    numbers = tuple(Feature(name, FeatureKind.NUMERIC, lower=-9.0, upper=9.0, step=1e-6) for name in ("x", "y"))
    schema = Schema(numbers, "label", ("no", "yes"))
    return Encoder(schema, np.zeros(2), np.zeros(2), np.ones(2))


def slide(
    current: Records, home: Records, slope: list[float], logit: float, cost_weight: float = 0.05, elsewhere: float = 0.0
) -> Records:
    """elsewhere: what changes of other features have cost."""
    encoder = plane()
    context = MoveContext.of(encoder, compile_constraints(encoder.schema, Constraints(), home), LocalSearchConfig())
    paid = np.hypot(np.linalg.norm(current - home, axis=1), elsewhere)
    gradients = LogitGradient(np.full(len(home), logit), np.tile(np.array(slope), (len(home), 1)))
    return linearised_steps(encoder, context, current, current, paid, gradients, np.full(len(home), cost_weight))


def test_it_leads_from_home_along_the_slope() -> None:
    """Half of the way and the whole: of the number that is changed, then of both."""
    home, current = np.zeros((1, 2)), np.array([[2.0, 0.0]])
    one_half, one, both_half, both = slide(current, home, [3.0, 4.0], logit=1.0)[0]
    assert one[1] == one_half[1] == 0.0
    np.testing.assert_allclose(one_half[0], (2.0 + one[0]) / 2, atol=1e-5)
    np.testing.assert_allclose(both[1] / both[0], 4 / 3, atol=1e-4)
    np.testing.assert_allclose(both_half, (current[0] + both) / 2, atol=1e-5)
    # The logit at home is 1 - 3 * 2 = -5; where the slide ends it is one of the levels, and worth its price.
    level = -5.0 + both @ [3.0, 4.0]
    assert round(level, 3) in np.arange(-2.0, 10.0)
    value = 1 / (1 + np.exp(-np.arange(-2.0, 10.0))) - 0.05 * (np.arange(-2.0, 10.0) + 5) / 5
    assert round(level, 3) == np.arange(-2.0, 10.0)[value.argmax()]


def test_a_high_price_leads_home() -> None:
    ended = slide(np.array([[2.0, 1.0]]), np.zeros((1, 2)), [3.0, 4.0], logit=9.0, cost_weight=50.0)[0]
    np.testing.assert_allclose(ended[3], [0.0, 0.0], atol=1e-6)


def test_who_would_be_accepted_at_home_is_led_home() -> None:
    """The slope says 20 at home, beyond every level: nothing is gained by going the other way either."""
    ended = slide(np.array([[2.0, 1.0]]), np.zeros((1, 2)), [3.0, 4.0], logit=30.0)[0]
    np.testing.assert_allclose(ended[[1, 3]], 0.0, atol=1e-6)


def test_beside_a_large_change_that_stays_a_step_costs_less_and_the_slide_is_longer() -> None:
    home, current = np.zeros((1, 2)), np.array([[2.0, 0.0]])
    alone, beside = (slide(current, home, [3.0, 4.0], 1.0, 0.3, elsewhere)[0, 3] for elsewhere in (0.0, 6.0))
    assert np.linalg.norm(beside) > np.linalg.norm(alone)


def test_without_a_slope_nothing_breaks() -> None:
    assert np.isfinite(slide(np.array([[2.0, 1.0]]), np.zeros((1, 2)), [0.0, 0.0], logit=-3.0)).all()


@given(seed=st.integers(0, 200), frozen=st.sets(st.sampled_from(["income", "savings", "debt_ratio", "housing"])))
def test_every_slide_is_allowed_and_a_row_alone_slides_as_in_a_batch(
    seed: int, frozen: set[str], loans_task: Task
) -> None:
    encoder, random = loans_task.encoder, np.random.default_rng(seed)
    origin = loans_task.test.records[:40]
    constraints = Constraints(immutable=frozenset(frozen), directions={"loan_months": Direction.UP})
    feasible = compile_constraints(encoder.schema, constraints, origin)
    current = encoder.decode(encoder.encode(origin) + random.normal(size=(40, encoder.width)), feasible=feasible)
    at, home = encoder.encode(current), encoder.encode(origin)
    gradients = LogitGradient(random.normal(size=40), random.normal(size=at.shape))
    paid, cost_weight = np.linalg.norm(at - home, axis=1), random.uniform(0.01, 1.0, 40)
    ended = linearised_steps(
        encoder, MoveContext.of(encoder, feasible, LocalSearchConfig()), current, at, paid, gradients, cost_weight
    )
    for way in range(ended.shape[1]):
        assert not violations(encoder.schema, origin, ended[:, way], feasible).any()
    np.testing.assert_array_equal(np.isnan(ended), np.repeat(np.isnan(current)[:, None], 4, axis=1))
    for row in (0, 17):
        part = slice(row, row + 1)
        context = MoveContext.of(encoder, feasible.row(row), LocalSearchConfig())
        alone = linearised_steps(
            encoder, context, current[part], at[part], paid[part], gradients.at(np.array([row])), cost_weight[part]
        )
        np.testing.assert_array_equal(alone[0], ended[row])
