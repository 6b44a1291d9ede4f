"""The local ensemble: raw records in, the votes of each member out."""

from dataclasses import dataclass

import numpy as np
import pytest

from models.arrays import Codes, Records
from models.data.frames import labels_to_codes, to_records
from models.data.infer import infer_schema
from models.datasets.dataset import Dataset
from models.datasets.loans import loans
from models.datasets.synthetic import four_blobs
from models.ensemble.knn import Knn
from models.ensemble.local import EnsembleProgress, LocalEnsemble, train_local_ensemble
from models.errors import ConfigError, DataError
from models.space.encoding import Encoder

FAST = ("forest", "knn", "xgboost")


@dataclass(frozen=True, eq=False)
class Lent:
    """A data set in the form that the ensemble takes."""

    encoder: Encoder
    records: Records
    labels: Codes


def lend(dataset: Dataset) -> Lent:
    schema = infer_schema(dataset.frame, dataset.label, overrides=dataset.overrides)
    records = to_records(schema, dataset.frame)
    return Lent(Encoder.fit(schema, records), records, labels_to_codes(schema, dataset.frame[dataset.label]))


@pytest.fixture(scope="module")
def applications() -> Lent:
    return lend(loans(400, seed=1))


@pytest.fixture(scope="module")
def ensemble(applications: Lent) -> LocalEnsemble:
    return train_local_ensemble(applications.encoder, applications.records, applications.labels, members=FAST)


def test_members_come_in_the_papers_order(ensemble: LocalEnsemble) -> None:
    assert ensemble.member_names == ("knn", "forest", "xgboost")


def test_it_answers_raw_records_with_missing_values(ensemble: LocalEnsemble, applications: Lent) -> None:
    assert np.isnan(applications.records).any()
    answer = ensemble.predict_proba(applications.records)
    assert answer.shape == (3, 400, 2)
    np.testing.assert_allclose(answer.sum(axis=2), 1.0, atol=1e-6)
    assert (answer.argmax(axis=2) == applications.labels).mean(axis=1).min() > 0.75


def test_no_records_no_answers(ensemble: LocalEnsemble, applications: Lent) -> None:
    assert ensemble.predict_proba(applications.records[:0]).shape == (3, 0, 2)


def test_the_same_seed_gives_the_same_ensemble(ensemble: LocalEnsemble, applications: Lent) -> None:
    again = train_local_ensemble(applications.encoder, applications.records, applications.labels, members=FAST)
    records = applications.records
    np.testing.assert_array_equal(again.predict_proba(records), ensemble.predict_proba(records))


def test_four_classes() -> None:
    blobs = lend(four_blobs(200))
    answer = train_local_ensemble(blobs.encoder, blobs.records, blobs.labels, members=FAST).predict_proba(blobs.records)
    assert answer.shape == (3, 200, 4)
    assert (answer.argmax(axis=2) == blobs.labels).mean() > 0.9


def test_tuned_searches_the_papers_grid_and_tells_its_progress(applications: Lent) -> None:
    seen: list[EnsembleProgress] = []
    tuned = train_local_ensemble(
        applications.encoder, applications.records, applications.labels, "tuned", ["knn"], progress=seen.append
    )
    assert [step.stage for step in seen] == ["search"] * 8 + ["fit"]
    assert [step.done for step in seen] == list(range(1, 10))
    assert {step.total for step in seen} == {9}
    assert isinstance(tuned.members[0], Knn)
    assert tuned.members[0].model.n_neighbors in (3, 5, 7, 9)


def test_an_error_of_the_watcher_ends_the_training(applications: Lent) -> None:
    def cancel(step: EnsembleProgress) -> None:
        raise InterruptedError(step.member)

    with pytest.raises(InterruptedError, match="knn"):
        train_local_ensemble(applications.encoder, applications.records, applications.labels, progress=cancel)


def test_an_unknown_member_is_named(applications: Lent) -> None:
    with pytest.raises(ConfigError, match=r"no ensemble member 'lightgbm'; choose from knn, svm"):
        train_local_ensemble(applications.encoder, applications.records, applications.labels, members=["lightgbm"])
    with pytest.raises(ConfigError, match="at least one member"):
        train_local_ensemble(applications.encoder, applications.records, applications.labels, members=[])


def test_labels_that_do_not_fit_are_refused(applications: Lent) -> None:
    encoder, records, labels = applications.encoder, applications.records, applications.labels
    with pytest.raises(DataError, match="400 training records but 399 labels"):
        train_local_ensemble(encoder, records, labels[:-1])
    with pytest.raises(DataError, match=r"Class 1 has 0 of 400"):
        train_local_ensemble(encoder, records, np.zeros_like(labels))
    with pytest.raises(DataError, match="Class code 2 is not one of the 2 classes"):
        train_local_ensemble(encoder, records, labels + 1)
    rare = np.zeros_like(labels)
    rare[:2] = 1
    with pytest.raises(DataError, match="Class 1 has 2 training rows; 3 folds need at least 3"):
        train_local_ensemble(encoder, records, rare)
