"""Random schemas, records that fit them and constraints on them, for the property tests."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from models.arrays import Encoded, Records
from models.data.grid import settle_value, snap_value
from models.data.schema import Direction, Feature, FeatureKind, Schema
from models.space.codings import ENCODINGS
from models.space.constraints import Constraints, Range

STEPS = (1.0, 0.1, 0.01, 1e-6, 0.25, 0.3, 5.0, 1000.0)


@st.composite
def features(draw: DrawFn, name: str) -> Feature:
    """A feature of any kind, with any of its marks."""
    flags = st.booleans()
    rarely = st.sampled_from([False, False, False, True])
    nullable, immutable, protected = draw(flags), draw(rarely), draw(rarely)
    if draw(flags):
        count, ordered = draw(st.integers(2, 6)), draw(flags)
        direction = draw(st.sampled_from(Direction)) if ordered else Direction.ANY
        categories = tuple(f"c{level}" for level in range(count))
        order = tuple(draw(st.permutations(categories))) if ordered else ()
        marks = (immutable, protected, direction, nullable)
        return Feature(name, FeatureKind.CATEGORICAL, 0.0, 0.0, 1.0, categories, ordered, *marks, order=order)
    step = draw(st.sampled_from(STEPS))
    kind = FeatureKind.INTEGER if step >= 1 and draw(flags) else FeatureKind.NUMERIC
    start, span = draw(st.integers(-1000, 1000)), draw(st.integers(1, 60))
    lower, upper = snap_value(start * step, step), snap_value((start + span) * step, step)
    direction = draw(st.sampled_from(Direction))
    least, most = lower - draw(st.integers(0, 40)) * step, upper + draw(st.integers(0, 40)) * step
    return Feature(
        name, kind, lower, upper, step, (), False, immutable, protected, direction, nullable, least=least, most=most
    )


encodings = st.sampled_from(ENCODINGS)


@st.composite
def schemas(draw: DrawFn) -> Schema:
    """One to five features, two classes."""
    count = draw(st.integers(1, 5))
    return Schema(tuple(draw(features(f"f{j}")) for j in range(count)), "label", ("no", "yes"))


def grid_values(feature: Feature) -> list[float]:
    """Every value that may be suggested, in order: numbers, or category indices."""
    count = round((feature.upper - feature.lower) / feature.step)
    start = round(feature.lower / feature.step)
    return [snap_value((start + k) * feature.step, feature.step) for k in range(count + 1)]


def held_values(feature: Feature) -> st.SearchStrategy[float]:
    """What a record may hold: on the grid or off it, within the bounds or beyond them."""
    listed = st.sampled_from(grid_values(feature))
    if feature.is_categorical:
        return listed
    digits = 0 if feature.kind is FeatureKind.INTEGER else 9
    anywhere = st.floats(feature.least, feature.most).map(lambda value: round(value, digits))
    inside = anywhere.filter(lambda value: feature.least <= value <= feature.most)
    return listed | inside.map(lambda value: settle_value(value, feature.step))


@st.composite
def record_matrices(draw: DrawFn, schema: Schema, missing: bool = True, anywhere: bool = False) -> Records:
    """One to six records, with gaps where they are allowed; the first is whole: an encoder can be fitted to them.

    anywhere: wherever a record may be, also off the grid and beyond the bounds of what may be suggested
    """
    rows = draw(st.integers(1, 6))
    records = np.empty((rows, len(schema.features)))
    for j, feature in enumerate(schema.features):
        values = held_values(feature) if anywhere else st.sampled_from(grid_values(feature))
        gaps = values | st.just(np.nan) if missing and feature.nullable else values
        records[:, j] = [draw(values), *(draw(gaps) for _ in range(rows - 1))]
    return records


@st.composite
def requests(draw: DrawFn, schema: Schema) -> Constraints:
    """Constraints of a legal form, which may still leave a record nothing."""
    names = st.sets(st.sampled_from(schema.names))
    ranges = {name: draw(_ranges(schema.features[schema.index(name)])) for name in sorted(draw(names))}
    movers = [feature.name for feature in schema.features if feature.ordered or not feature.is_categorical]
    ways = st.dictionaries(st.sampled_from(movers), st.sampled_from(Direction)) if movers else st.just({})
    return Constraints(frozenset(draw(names)), ranges, draw(ways))


@st.composite
def _ranges(draw: DrawFn, feature: Feature) -> Range:
    if feature.is_categorical:
        return tuple(draw(st.sets(st.sampled_from(feature.categories), min_size=1)))
    values = st.sampled_from(grid_values(feature))
    inner = draw(values)
    below = inner - draw(st.floats(0, 1)) * (inner - feature.lower) - draw(st.sampled_from([0.0, feature.step * 0.4]))
    above = inner + draw(st.floats(0, 1)) * (feature.upper - inner) + draw(st.sampled_from([0.0, 1e9]))
    return draw(st.sampled_from([(below, above), (below, None), (None, above), (None, None)]))


@st.composite
def points(draw: DrawFn, count: int, width: int) -> Encoded:
    """Points (count, width) anywhere that is finite: near the data, at the origin of the circles, and far away."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    near = random.normal(0, 2, (count, width))
    far: Encoded = near * random.choice([0.0, 1.0, 1.0, 1.0, 1e3, 1e307], (count, width))
    return far
