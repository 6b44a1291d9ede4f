"""Decoding as tensor arithmetic against the encoder's own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.arrays import Encoded
from models.data.schema import Schema
from models.space.codings import Encoding
from models.space.encoding import Encoder
from models.space.snapping import Snapper
from tests.models.schemas import encodings, record_matrices, schemas
from tests.models.space.test_encoding import RECORDS, SCHEMA

CPU = torch.device("cpu")
ROWS = 12


def near_points(encoder: Encoder, random: np.random.Generator) -> Encoded:
    """Points (ROWS, D) anywhere but half-way between two decodable ones, where a float32 may choose the other."""
    points = np.empty((ROWS, encoder.width))
    for j, (feature, columns) in enumerate(zip(encoder.schema.features, encoder.columns, strict=True)):
        off = random.uniform(0.03, 0.45, ROWS) * random.choice([-1.0, 1.0], ROWS)
        levels = len(feature.categories) + feature.nullable
        width = columns.stop - columns.start
        if feature.is_categorical and encoder.encoding == "circle":
            angle = 2 * np.pi * (random.integers(levels, size=ROWS) + off) / levels
            radius = random.uniform(0.1, 3.0, ROWS)
            points[:, columns] = (radius * np.stack([np.cos(angle), np.sin(angle)])).T
        elif feature.is_categorical and width == levels:
            heights = random.permuted(np.tile(np.arange(levels), (ROWS, 1)), axis=1)
            points[:, columns] = 0.3 * heights + off[:, None]
        elif feature.is_categorical:
            line = np.sort(encoder.encode_feature(j, np.arange(float(len(feature.categories))))[:, 0])
            place = random.integers(len(line), size=ROWS)
            points[:, columns] = (line[place] + off * (line[1] - line[0]))[:, None]
        else:
            steps = round((feature.upper - feature.lower) / feature.step)
            place = random.integers(-20, steps + 20, size=ROWS)
            raw = feature.lower + (place + off) * feature.step
            points[:, columns.start] = (raw - encoder.mean[j]) / encoder.scale[j]
    return points


@settings(max_examples=60)
@given(data=st.data(), schema=schemas(), seed=st.integers(0, 10_000), encoding=encodings)
def test_snap_is_decode_and_encode(data: st.DataObject, schema: Schema, seed: int, encoding: Encoding) -> None:
    encoder = Encoder.fit(schema, data.draw(record_matrices(schema)), encoding)
    points = near_points(encoder, np.random.default_rng(seed))
    expected = encoder.encode(encoder.decode(points))
    snapper = Snapper(encoder, CPU)
    snapped = snapper.snap(torch.from_numpy(points.astype(np.float32)))
    largest = max(abs(bound) for feature in encoder.schema.features for bound in (feature.lower, feature.upper))
    rounding = 1e-6 * (1 + largest / encoder.scale.min())
    np.testing.assert_allclose(snapped.numpy(), expected, atol=rounding + 1e-5)
    torch.testing.assert_close(snapper.snap(snapped), snapped, atol=rounding + 1e-5, rtol=0)
    assert snapped.dtype == torch.float32


@pytest.fixture
def snapper() -> Snapper:
    return Snapper(Encoder.fit(SCHEMA, RECORDS), CPU)


def test_the_gradient_passes_straight_through(snapper: Snapper) -> None:
    points = torch.randn(4, 9, requires_grad=True)
    landed = snapper.through(points)
    torch.testing.assert_close(landed, snapper.snap(points))
    weight = torch.arange(36.0).reshape(4, 9)
    (gradient,) = torch.autograd.grad((landed * weight).sum(), points)
    assert torch.equal(gradient, weight)


def test_the_input_is_left_alone(snapper: Snapper) -> None:
    points = torch.randn(4, 9)
    before = points.clone()
    snapper.snap(points)
    assert torch.equal(points, before)
