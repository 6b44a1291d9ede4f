"""One small bench for all tests of the experiments: two models, a training of seconds."""

import pytest

from benchmarks.experiments.bench import Bench, Settings
from benchmarks.store import Places
from tests.models.tiny import TINY

SETTINGS = Settings(quick=True, records=12, slow_records=3, members=("knn", "mlp"), base=TINY)


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench("moons", 0, SETTINGS, Places(None, tmp_path_factory.mktemp("cache")))
