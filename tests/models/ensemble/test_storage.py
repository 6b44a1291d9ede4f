"""A saved ensemble: the same to the last bit, or an ArtifactError."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from models.arrays import Records
from models.data.frames import labels_to_codes, to_records
from models.data.infer import infer_schema
from models.datasets.loans import loans
from models.ensemble.local import LocalEnsemble, load_ensemble, save_ensemble
from models.ensemble.recipes import MEMBER_NAMES
from models.errors import ArtifactError
from models.space.encoding import Encoder
from tests.models.ensemble.small import RECIPES, blobs, fitted


class Stranger:
    """A type that no model is made of."""


@pytest.fixture(scope="module")
def records() -> Records:
    dataset = loans(300, seed=2)
    return to_records(infer_schema(dataset.frame, dataset.label, overrides=dataset.overrides), dataset.frame)


@pytest.fixture(scope="module")
def ensemble(records: Records) -> LocalEnsemble:
    dataset = loans(300, seed=2)
    schema = infer_schema(dataset.frame, dataset.label, overrides=dataset.overrides)
    encoder, y = Encoder.fit(schema, records), labels_to_codes(schema, dataset.frame[dataset.label])
    x = encoder.encode(records)
    return LocalEnsemble(encoder, tuple(RECIPES[name].fit(x, y, 2, 0) for name in MEMBER_NAMES), schema.classes)


@pytest.fixture
def folder(ensemble: LocalEnsemble, tmp_path: Path) -> Path:
    save_ensemble(ensemble, tmp_path / "made" / "here")
    return tmp_path / "made" / "here"


def test_all_seven_come_back_to_the_last_bit(ensemble: LocalEnsemble, folder: Path, records: Records) -> None:
    loaded = load_ensemble(folder)
    assert loaded.member_names == MEMBER_NAMES
    assert loaded.classes == ensemble.classes
    np.testing.assert_array_equal(loaded.predict_proba(records), ensemble.predict_proba(records))


def test_there_is_no_pickle_in_the_folder(folder: Path) -> None:
    suffixes = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert suffixes == {".json", ".skops", ".ubj", ".sha256", ".cbm", ".safetensors"}


@pytest.mark.parametrize(
    "path", ["ensemble.json", "encoder.json", "svm/svm.json", "tabnet/tabnet.json", "mlp/mlp.skops"]
)
def test_a_missing_file_is_an_artifact_error(folder: Path, path: str) -> None:
    (folder / path).unlink()
    with pytest.raises(ArtifactError, match="missing"):
        load_ensemble(folder)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("ensemble.json", "[1]"),
        ("ensemble.json", '{"version": 2}'),
        ("ensemble.json", '{"version": 1, "members": ["knn", "oracle"], "classes": ["approved", "refused"]}'),
        ("ensemble.json", '{"version": 1, "members": ["../knn"], "classes": ["approved", "refused"]}'),
        ("ensemble.json", '{"version": 1, "members": [], "classes": ["approved", "refused"]}'),
        ("ensemble.json", '{"version": 1, "members": ["knn"], "classes": ["a", "b"]}'),
        ("encoder.json", "{}"),
        ("encoder.json", '{"version": 1, "schema": {"version": 1}}'),
        ("svm/svm.json", '{"slope": -1.0}'),
        ("tabnet/tabnet.json", '{"inputs": 19, "classes": 2, "width": 0, "steps": 3}'),
        ("tabnet/tabnet.json", '{"inputs": 3, "classes": 2, "width": 8, "steps": 3}'),
    ],
)
def test_a_changed_file_is_an_artifact_error(folder: Path, path: str, content: str) -> None:
    (folder / path).write_text(content)
    with pytest.raises(ArtifactError):
        load_ensemble(folder)


def dump(model: object, path: Path) -> None:
    """As a member is written; skops takes seconds to import, which no other test should wait for."""
    import skops.io

    skops.io.dump(model, path)


def test_another_model_in_place_of_a_member_is_refused(folder: Path) -> None:
    other = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    dump(other, folder / "knn" / "knn.skops")
    with pytest.raises(ArtifactError, match="holds a LogisticRegression, not a KNeighborsClassifier"):
        load_ensemble(folder)


def test_a_type_that_is_not_trusted_is_refused(folder: Path) -> None:
    model = KNeighborsClassifier(1).fit([[0.0], [1.0]], [0, 1])
    model.stranger = Stranger()
    dump(model, folder / "knn" / "knn.skops")
    with pytest.raises(ArtifactError, match=r"not allowed.*Stranger"):
        load_ensemble(folder)


@pytest.mark.parametrize("name", MEMBER_NAMES)
def test_a_member_for_other_columns_is_refused(folder: Path, name: str, ensemble: LocalEnsemble) -> None:
    fitted(name, 2).save(folder / name)
    with pytest.raises(ArtifactError, match=f"'{name}' takes 4 columns; the encoder gives {ensemble.encoder.width}"):
        load_ensemble(folder)


@pytest.mark.parametrize("name", MEMBER_NAMES)
def test_a_member_for_other_classes_is_refused(tmp_path: Path, name: str) -> None:
    points = blobs(4)
    frame = pd.DataFrame(points.x, columns=list("abcd")).assign(label=points.y)
    schema = infer_schema(frame, "label")
    encoder = Encoder.fit(schema, to_records(schema, frame))
    save_ensemble(LocalEnsemble(encoder, (fitted(name, 4),), schema.classes), tmp_path)
    load_ensemble(tmp_path)
    fitted(name, 2).save(tmp_path / name)
    with pytest.raises(ArtifactError, match=f"'{name}' knows 2 classes; the ensemble has 4"):
        load_ensemble(tmp_path)
