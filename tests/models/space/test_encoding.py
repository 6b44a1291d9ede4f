"""The encoding and the exact way back."""

import json
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.arrays import Records
from models.data.frames import to_records
from models.data.infer import infer_schema
from models.data.schema import Feature, FeatureKind, Schema
from models.datasets.loans import loans
from models.errors import ArtifactError, DataError, SolverError
from models.space.codings import Encoding
from models.space.encoding import Encoder, cost
from tests.models.schemas import encodings, points, record_matrices, schemas
from tests.patience import PATIENCE

NAN = math.nan
SCHEMA = Schema(
    (
        Feature("x", FeatureKind.NUMERIC, 0.0, 10.0, 0.5, nullable=True),
        Feature("c", FeatureKind.CATEGORICAL, categories=("a", "b", "c", "d")),
        Feature("m", FeatureKind.CATEGORICAL, categories=("a", "b", "c"), nullable=True),
    ),
    "label",
    ("no", "yes"),
)
RECORDS: Records = np.array([[1.0, 0, 0], [2.0, 1, NAN], [6.0, 1, 2], [NAN, 3, 1]])


@pytest.fixture
def encoder() -> Encoder:
    return Encoder.fit(SCHEMA, RECORDS, "circle")


def test_shapes(encoder: Encoder) -> None:
    assert encoder.width == 5
    assert encoder.columns == (slice(0, 1), slice(1, 3), slice(3, 5))
    assert encoder.feature_of_column.tolist() == [0, 1, 1, 2, 2]
    assert encoder.encode(RECORDS).shape == (4, 5)
    assert encoder.encode(RECORDS[:0]).shape == (0, 5)
    assert encoder.decode(np.empty((0, 5))).shape == (0, 3)
    simplex = Encoder.fit(SCHEMA, RECORDS)
    assert simplex.columns == (slice(0, 1), slice(1, 5), slice(5, 9))
    assert simplex.encode(RECORDS[:0]).shape == (0, 9) and simplex.decode(np.empty((0, 9))).shape == (0, 3)


def test_known_answer(encoder: Encoder) -> None:
    filled = np.array([1.0, 2.0, 6.0, 2.0])  # the median of 1, 2 and 6
    assert encoder.fill.tolist() == [2.0, 1.0, 3.0]
    encoded = encoder.encode(RECORDS)
    np.testing.assert_array_equal(encoded[:, 0], (filled - filled.mean()) / filled.std())
    quarter = [[1, 0], [0, 1], [0, 1], [0, -1]]
    np.testing.assert_allclose(encoded[:, 1:3], quarter, atol=1e-15)
    missing_is_the_last_of_four = [[1, 0], [0, -1], [-1, 0], [0, 1]]
    np.testing.assert_allclose(encoded[:, 3:5], missing_is_the_last_of_four, atol=1e-15)


def test_known_answer_without_circles() -> None:
    grade = Feature("g", FeatureKind.CATEGORICAL, categories=("high", "low", "mid"), order=("low", "mid", "high"))
    flag = Feature("f", FeatureKind.CATEGORICAL, categories=("no", "yes"))
    schema = Schema((*SCHEMA.features[1:], grade, flag), "label", ("no", "yes"))
    records = np.array([[0, NAN, 0, 0], [3, 2, 2, 1]])
    encoder = Encoder.fit(schema, records)
    quarter, step = math.sqrt(4 / 3), math.sqrt(1.5)
    first, second = encoder.encode(records)
    np.testing.assert_allclose(first, [quarter, 0, 0, 0, 0, 0, 0, quarter, step, -1], atol=1e-15)
    np.testing.assert_allclose(second, [0, 0, 0, quarter, 0, 0, quarter, 0, 0, 1], atol=1e-15)


def test_the_median_is_rounded_to_the_step() -> None:
    assert Encoder.fit(SCHEMA, np.array([[1.0, 0, 0], [1.5, 0, 0]])).fill[0] in (1.0, 1.5)


def test_decode_clips_rounds_and_takes_the_nearest_category(encoder: Encoder) -> None:
    anywhere = np.array([[99.0, 0.1, 9.0, -5.0, 0.1], [-99.0, -0.2, -0.1, 0.0, -3.0]])
    # The nearest level of the last point is the missing one: without an origin that misses it, a neighbour is taken.
    decoded = encoder.decode(anywhere)
    assert decoded[0].tolist() == [10.0, 1, 2]
    assert decoded[1, :2].tolist() == [0.0, 2] and decoded[1, 2] in (0, 2)
    half_way = encoder.encode(np.array([[3.0, 0, 0]]))
    half_way[0, 0] += 0.2 / encoder.scale[0]
    assert encoder.decode(half_way)[0, 0] == 3.0


def test_a_missing_value_stays_missing_only_where_it_did_not_move(encoder: Encoder) -> None:
    encoded = encoder.encode(RECORDS)
    np.testing.assert_array_equal(encoder.decode(encoded, origin=RECORDS), RECORDS)
    assert not np.isnan(encoder.decode(encoded)).any()
    moved = encoded.copy()
    moved[3, 0] += 1 / encoder.scale[0]
    moved[1, 3:5] = [1, 0]
    decoded = encoder.decode(moved, origin=RECORDS)
    assert decoded[3, 0] == 3.0 and decoded[1, 2] == 0


def test_a_missing_category_that_training_never_saw_is_the_most_common_one(encoder: Encoder) -> None:
    origin = np.array([[1.0, NAN, 0]])
    encoded = encoder.encode(origin)
    np.testing.assert_array_equal(encoded, encoder.encode(np.array([[1.0, 1, 0]])))
    np.testing.assert_array_equal(encoder.decode(encoded, origin=origin), origin)


@given(st.data(), encodings)
def test_decode_of_encode_is_the_record(data: st.DataObject, encoding: Encoding) -> None:
    schema = data.draw(schemas())
    anywhere = data.draw(record_matrices(schema, anywhere=True))
    encoder = Encoder.fit(schema, anywhere, encoding)
    np.testing.assert_array_equal(encoder.decode(encoder.encode(anywhere), origin=anywhere), anywhere)
    records = data.draw(record_matrices(schema))
    encoded = encoder.encode(records)
    np.testing.assert_array_equal(encoder.decode(encoded, origin=records), records)
    whole = ~np.isnan(records).any(axis=1)
    np.testing.assert_array_equal(encoder.decode(encoded[whole]), records[whole])


@given(st.data(), encodings)
def test_decode_gives_legal_records_and_a_row_alone_equals_the_row_in_a_batch(
    data: st.DataObject, encoding: Encoding
) -> None:
    schema = data.draw(schemas())
    encoder = Encoder.fit(schema, data.draw(record_matrices(schema)), encoding)
    encoded = data.draw(points(4, encoder.width))
    decoded = encoder.decode(encoded)
    for j, feature in enumerate(schema.features):
        assert ((decoded[:, j] >= feature.lower) & (decoded[:, j] <= feature.upper)).all()
    np.testing.assert_array_equal(encoder.decode(encoder.encode(decoded)), decoded)
    alone = np.concatenate([encoder.decode(encoded[[row]]) for row in range(4)])
    np.testing.assert_array_equal(alone, decoded)
    each = np.concatenate([encoder.encode(decoded[[row]]) for row in range(4)])
    np.testing.assert_array_equal(each, encoder.encode(decoded))


@given(st.data(), encodings)
def test_a_feature_alone_is_encoded_as_in_its_record(data: st.DataObject, encoding: Encoding) -> None:
    schema = data.draw(schemas())
    records = data.draw(record_matrices(schema))
    encoder = Encoder.fit(schema, records, encoding)
    encoded = encoder.encode(records)
    for j, where in enumerate(encoder.columns):
        np.testing.assert_array_equal(encoder.encode_feature(j, records[:, j]), encoded[:, where])
        both = encoder.encode_feature(j, np.stack([records[:, j], records[:, j]]))
        np.testing.assert_array_equal(both[1], encoded[:, where])


@given(st.data(), encodings)
def test_json_round_trip_is_bit_exact(data: st.DataObject, encoding: Encoding) -> None:
    schema = data.draw(schemas())
    records = data.draw(record_matrices(schema))
    encoder = Encoder.fit(schema, records, encoding)
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again.schema == schema
    assert again.encoding == encoding or not any(feature.is_categorical for feature in schema.features)
    np.testing.assert_array_equal(again.encode(records), encoder.encode(records))


def test_an_encoder_that_says_nothing_of_its_encoding_is_a_circle(encoder: Encoder) -> None:
    document = encoder.to_json()
    assert "encoding" not in document
    again = Encoder.from_json(document)
    np.testing.assert_array_equal(again.encode(RECORDS), encoder.encode(RECORDS))
    anywhere = np.random.default_rng(0).normal(0, 2, (50, encoder.width))
    np.testing.assert_array_equal(again.decode(anywhere), encoder.decode(anywhere))


def test_a_damaged_document_is_refused(encoder: Encoder) -> None:
    document = encoder.to_json()
    with pytest.raises(ArtifactError, match="version 9, not 1"):
        Encoder.from_json(document | {"version": 9})
    with pytest.raises(ArtifactError, match="'mean' is not a list of 3 numbers"):
        Encoder.from_json(document | {"mean": [0.0]})
    with pytest.raises(ArtifactError, match="'fill' is not a list of 3 numbers"):
        Encoder.from_json(document | {"fill": [0.0, NAN, 0.0]})
    with pytest.raises(ArtifactError, match="unknown encoding 'sphere'"):
        Encoder.from_json(document | {"encoding": "sphere"})
    with pytest.raises(ArtifactError, match=r"'scale' holds 0\.0, which is not above 0"):
        Encoder.from_json(document | {"scale": [0.0, 1.0, 1.0]})


def test_a_value_that_the_split_left_constant_keeps_a_finite_scale() -> None:
    encoder = Encoder.fit(SCHEMA, np.array([[4.0, 0, 0], [4.0, 1, 1]]))
    assert encoder.scale[0] == 10.0
    other = np.array([[9.5, 0, 0]])
    np.testing.assert_array_equal(encoder.decode(encoder.encode(other)), other)


def test_nothing_to_fit_on_is_refused() -> None:
    with pytest.raises(DataError, match="0 training records"):
        Encoder.fit(SCHEMA, np.empty((0, 3)))
    with pytest.raises(DataError, match="Column 'x' holds no value in the 1 training records"):
        Encoder.fit(SCHEMA, np.array([[NAN, 0, 0]]))
    with pytest.raises(DataError, match="Column 'c' holds no value"):
        Encoder.fit(SCHEMA, np.array([[1.0, NAN, 0]]))


def test_a_point_that_is_not_finite_is_refused(encoder: Encoder) -> None:
    encoded = encoder.encode(RECORDS)
    encoded[2, 1] = NAN
    with pytest.raises(SolverError, match="Point 2 of 4 is not finite"):
        encoder.decode(encoded)


def test_cost_is_the_distance_of_the_rows() -> None:
    assert cost(np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[3.0, 4.0], [1.0, 1.0]])).tolist() == [5.0, 0.0]


def test_eight_thousand_records_decode_in_milliseconds() -> None:
    data = loans(rows=8000, seed=1)
    schema = infer_schema(data.frame, data.label, data.overrides)
    records = to_records(schema, data.frame)
    encoder = Encoder.fit(schema, records)
    encoded = encoder.encode(records)
    started = time.process_time()
    decoded = encoder.decode(encoded, origin=records)
    assert time.process_time() - started < 0.5 * PATIENCE  # a loop over the rows takes seconds; this takes 5 ms
    np.testing.assert_array_equal(decoded, records)
