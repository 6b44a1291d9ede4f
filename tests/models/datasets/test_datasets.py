"""The data sets that are made here, the public ones, and the split."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.data.frames import labels_to_codes, to_records
from models.data.infer import infer_schema
from models.data.schema import Direction, FeatureKind
from models.datasets import NAMES, load
from models.datasets.dataset import split
from models.datasets.loans import OVERRIDES, approval_probability, burden, loans, policy_refuses
from models.datasets.public import PUBLIC_NAMES
from models.datasets.synthetic import chessboard, circles, four_blobs, moons, spirals
from models.errors import ConfigError, DataError, MissingDataError
from models.space.encoding import Encoder

PLANE = {"moons": moons, "circles": circles, "spirals": spirals, "chessboard": chessboard, "four_blobs": four_blobs}


@pytest.mark.parametrize("name", PLANE)
def test_a_plane_data_set_is_seeded_and_has_the_size_asked_for(name: str) -> None:
    first, again, other = PLANE[name](180, 3), PLANE[name](180, 3), PLANE[name](180, 4)
    pd.testing.assert_frame_equal(first.frame, again.frame)
    assert not first.frame.equals(other.frame)
    assert first.frame.shape == (180, 3) and list(first.frame.columns) == ["x1", "x2", "label"]
    assert len(PLANE[name](181).frame) == (180 if name == "chessboard" else 181)
    with pytest.raises(ConfigError, match=f"'{name}' cannot have 3 rows"):
        PLANE[name](3)


def test_spirals_are_those_of_the_papers_code() -> None:
    random = np.random.RandomState(5)
    theta = np.sqrt(random.rand(1500)) * 2.5 * 2 * np.pi
    radius = theta / (2.5 * 2 * np.pi) * 5
    one = np.column_stack([radius * np.cos(theta), radius * np.sin(theta)])
    other = np.column_stack([radius * np.cos(theta + np.pi), radius * np.sin(theta + np.pi)])
    expected = np.vstack([one, other]) + 0.1 * random.randn(3000, 2)
    frame = spirals(seed=5).frame
    np.testing.assert_array_equal(frame[["x1", "x2"]].to_numpy(), expected)
    assert frame["label"].tolist() == [0] * 1500 + [1] * 1500


def test_circles_are_those_of_the_papers_code() -> None:
    random = np.random.RandomState(5)
    angles = 2 * np.pi * random.rand(1500)
    outer = np.column_stack([np.cos(angles), np.sin(angles)])
    expected = np.vstack([outer, 0.5 * outer]) + 0.05 * random.randn(3000, 2)
    np.testing.assert_array_equal(circles(seed=5).frame[["x1", "x2"]].to_numpy(), expected)


def test_the_chessboard_has_nine_clusters_of_the_colour_of_their_field() -> None:
    frame = chessboard(seed=5).frame
    assert len(frame) == 2997
    field = np.rint((frame[["x1", "x2"]].to_numpy() + 2) / 2).astype(int)
    np.testing.assert_array_equal(field.sum(axis=1) % 2, frame["label"])
    assert len(np.unique(field, axis=0)) == 9
    first = np.random.RandomState(5).randn(333, 2) * 0.1 - 2
    np.testing.assert_allclose(frame[["x1", "x2"]].to_numpy()[:333], first, atol=1e-12)


def test_loans_follow_their_rules() -> None:
    data = loans(rows=4000, seed=2)
    pd.testing.assert_frame_equal(data.frame, loans(rows=4000, seed=2).frame)
    whole = data.frame.dropna()
    refused = whole["decision"] == "refused"
    assert refused[policy_refuses(whole)].all()
    open_cases = whole[~policy_refuses(whole)]
    probability = approval_probability(open_cases)
    approved = (open_cases["decision"] == "approved").to_numpy()
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 0.95), (0.95, 1.0)):
        chosen = (probability >= low) & (probability <= high)
        assert chosen.sum() > 50
        assert abs(approved[chosen].mean() - probability[chosen].mean()) < 0.1
    assert 0.55 < 1 - refused.mean() < 0.8


def test_a_loan_that_costs_more_or_owes_more_is_less_likely() -> None:
    frame = loans(rows=500, seed=0).frame.dropna()
    assert (burden(frame.assign(loan_amount=frame["loan_amount"] * 2)) > burden(frame)).all()
    worse = frame.assign(late_payments=frame["late_payments"] + 1)
    assert (approval_probability(worse) < approval_probability(frame)).all()
    np.testing.assert_array_equal(approval_probability(frame.assign(sex="male", age=70)), approval_probability(frame))


def test_loans_come_with_a_schema_that_marks_what_may_not_change() -> None:
    data = loans(rows=1000)
    schema = infer_schema(data.frame, data.label, data.overrides)
    by_name = dict(zip(schema.names, schema.features, strict=True))
    protected = {name for name, feature in by_name.items() if feature.protected}
    assert protected == {"age", "sex", "dependents"} and all(by_name[name].immutable for name in protected)
    assert by_name["education"].direction is Direction.UP
    assert by_name["education"].categories == ("primary", "secondary", "bachelor", "master")
    assert by_name["loan_amount"].step == 500 and by_name["loan_months"].step == 6
    assert {name for name, feature in by_name.items() if feature.nullable} == {"savings", "employment_years", "housing"}
    assert {feature.kind for feature in schema.features} == set(FeatureKind)
    assert set(OVERRIDES["features"]) <= set(schema.names)


# rows, features, categorical ones, features with missing values
SHAPES = {
    "adult": (48842, 12, 8, 3),
    "compas": (7214, 9, 9, 0),
    "heloc": (10459, 23, 0, 0),
    "heloc-missing": (10459, 23, 0, 23),
    "blood": (748, 4, 0, 0),
    "musk": (6598, 166, 0, 0),
}


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_a_public_data_set_has_the_papers_shape_and_survives_the_encoding(name: str, data_folder: Path) -> None:
    data = load(name, data_folder)
    schema = infer_schema(data.frame, data.label, data.overrides)
    records = to_records(schema, data.frame)
    categorical = sum(feature.is_categorical for feature in schema.features)
    nullable = sum(feature.nullable for feature in schema.features)
    assert (*records.shape, categorical, nullable) == SHAPES[name]
    assert not any(feature.immutable or feature.protected for feature in schema.features), "the paper's protocol"
    assert len(schema.classes) == 2 and len(labels_to_codes(schema, data.frame[data.label])) == len(records)
    encoder = Encoder.fit(schema, records)
    np.testing.assert_array_equal(encoder.decode(encoder.encode(records), origin=records), records)


def test_compas_categories_are_in_order(data_folder: Path) -> None:
    data = load("compas", data_folder)
    schema = infer_schema(data.frame, data.label, data.overrides)
    by_name = dict(zip(schema.names, schema.features, strict=True))
    assert by_name["score_text"].categories == ("Low", "Medium", "High")
    assert by_name["priors_count"].categories[:3] == ("0", "1", "2") and by_name["priors_count"].ordered


def test_a_missing_file_names_the_file_the_folder_the_variable_and_the_source(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError) as caught:
        load("heloc", tmp_path)
    for word in ("heloc.csv.gz", str(tmp_path), "RECOURSE_DATA", "FICO"):
        assert word in str(caught.value)
    with pytest.raises(MissingDataError, match=r"Set RECOURSE_DATA to the folder that holds adult\.csv\.gz"):
        load("adult")


def test_a_file_with_other_columns_is_refused(tmp_path: Path, data_folder: Path) -> None:
    shutil.copy(data_folder / "blood.csv.gz", tmp_path / "adult.csv.gz")
    with pytest.raises(DataError, match="has no column 'education-num'; is it the file made from 'Adult'"):
        load("adult", tmp_path)


def test_an_uncompressed_file_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "blood.csv").write_text("recency,frequency,monetary,time,donated\n2,50,12500,98,1\n", encoding="utf-8")
    assert load("blood", tmp_path).frame.shape == (1, 5)


def test_every_name_can_be_loaded_and_an_unknown_one_is_refused() -> None:
    assert set(NAMES) == {*PLANE, "loans", *PUBLIC_NAMES}
    assert load("loans", seed=1).label == "decision"
    with pytest.raises(ConfigError, match="no data set 'iris'; the data sets are moons, circles"):
        load("iris")


@given(st.lists(st.integers(5, 60), min_size=2, max_size=5), st.integers(0, 99))
def test_a_split_has_every_row_once_and_every_class_everywhere(counts: list[int], seed: int) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    parts = split(labels, seed)
    rows = np.concatenate([parts.train, parts.validation, parts.test])
    np.testing.assert_array_equal(np.sort(rows), np.arange(len(labels)))
    for part, share in ((parts.train, 0.6), (parts.validation, 0.2), (parts.test, 0.2)):
        found = np.bincount(labels[part], minlength=len(counts))
        assert (found >= 1).all()
        assert (np.abs(found - share * np.array(counts)) <= 1.01).all()
    np.testing.assert_array_equal(split(labels, seed).test, parts.test)


def test_a_class_of_two_rows_cannot_be_split() -> None:
    with pytest.raises(DataError, match="Class 1 has 2 rows"):
        split(np.array([0, 0, 0, 1, 1]), 0)
