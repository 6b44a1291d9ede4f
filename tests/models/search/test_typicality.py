"""How typical an answer is, by real records that the networks were not taught on."""

from dataclasses import replace

import numpy as np
import pytest

from models.model import RecourseModel
from models.networks.density import trust_threshold
from models.search.scoring import PERCENTS, is_trusted, measure_density_quantiles, score_points, typicality
from tests.models.tiny import TINY, Task, random_model


@pytest.fixture(scope="module")
def unmeasured(blobs_task: Task) -> RecourseModel:
    return random_model(blobs_task.encoder, TINY)


def test_a_record_is_as_typical_as_its_place_among_real_ones_of_its_class(unmeasured: RecourseModel) -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(400, unmeasured.encoder.width))
    records, labels = unmeasured.encoder.decode(points), random.integers(0, 4, size=400)
    model = replace(unmeasured, density_quantiles=measure_density_quantiles(unmeasured, records, labels))
    for label in range(4):
        scores = score_points(model, model.encoder.encode(records), np.full(400, label)).density
        own = scores[labels == label]
        for score in np.quantile(own, (0.1, 0.5, 0.9)):
            assert typicality(model, label, float(score)) == pytest.approx((own < score).mean(), abs=0.02)
        assert typicality(model, label, float(own.min()) - 1.0) == 0.0
        assert typicality(model, label, float(own.max()) + 1.0) == 1.0


def test_nothing_is_said_of_a_class_without_a_real_record(unmeasured: RecourseModel) -> None:
    records = unmeasured.encoder.decode(np.zeros((3, unmeasured.encoder.width)))
    measured = measure_density_quantiles(unmeasured, records, np.zeros(3, dtype=np.int64))
    model = replace(unmeasured, density_quantiles=measured)
    assert typicality(model, 1, 5.0) is None and typicality(unmeasured, 0, 5.0) is None
    assert len(model.density_quantiles[0]) == len(PERCENTS)


def test_who_is_among_the_least_typical_is_not_trusted_though_denser_than_noise(unmeasured: RecourseModel) -> None:
    edge = trust_threshold(unmeasured.config.noise)
    assert is_trusted(unmeasured, edge, 0.05) and is_trusted(unmeasured, edge, None)
    assert not is_trusted(unmeasured, edge + 9.0, 0.049) and not is_trusted(unmeasured, edge - 0.1, 0.5)
