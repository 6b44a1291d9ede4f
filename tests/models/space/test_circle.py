"""The unit circle: levels to points and the nearest permitted level back."""

import numpy as np
from numpy.typing import NDArray

from models.space.codings import Circles

CIRCLES = Circles(categories=np.array([4, 3]), nullable=np.array([False, True]))
NEVER: NDArray[np.bool_] = np.zeros((1, 2), dtype=np.bool_)


def at(*degrees: float) -> NDArray[np.float64]:
    """One row of points (1, C, 2) at the angles given."""
    angles = np.deg2rad(np.array([degrees]))
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def test_levels_stand_at_equal_angles_and_missing_is_the_last() -> None:
    assert CIRCLES.counts.tolist() == [4, 4]
    np.testing.assert_allclose(CIRCLES.points(np.array([[1, 3]])), at(90, 270), atol=1e-15)


def test_the_nearest_level_of_a_point_at_any_distance() -> None:
    assert CIRCLES.nearest(at(130, 170), None, NEVER).tolist() == [[1, 2]]
    assert CIRCLES.nearest(1e-9 * at(-50, -20), None, NEVER).tolist() == [[3, 0]]
    assert CIRCLES.nearest(1e300 * at(359, 91), None, NEVER).tolist() == [[0, 1]]


def test_the_missing_level_only_where_it_is_permitted() -> None:
    assert CIRCLES.nearest(at(0, 271), None, ~NEVER).tolist() == [[0, 3]]
    assert CIRCLES.nearest(at(0, 271), None, NEVER).tolist() == [[0, 0]]
    assert CIRCLES.nearest(at(0, 269), None, NEVER).tolist() == [[0, 2]]


def test_the_nearest_of_the_permitted_levels() -> None:
    permitted = np.array([[[False, False, True, True], [False, True, False, False]]])
    assert CIRCLES.nearest(at(80, 350), permitted, NEVER).tolist() == [[2, 1]]
    assert CIRCLES.nearest(at(-10, 350), permitted, ~NEVER).tolist() == [[3, 3]]
