"""What every test may use: the folder of public data sets, and reproducible property tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder that RECOURSE_DATA names; tests of the public data sets are skipped without it."""
    folder = os.environ.get("RECOURSE_DATA")
    if not folder:
        pytest.skip("RECOURSE_DATA does not name the folder of public data sets")
    return Path(folder)
