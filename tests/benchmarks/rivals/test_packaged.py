"""DiCE and NICE answer a known problem where they are installed; a child that dies is named."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.rivals.packaged import PYTHON, Package, Packaged, PackageError
from models.errors import MissingDataError
from tests.benchmarks.rivals.planes import Thresholds, problem

installed = pytest.mark.skipif(not PYTHON.exists(), reason="`make rivals` was not run")
RECORDS, TARGET = np.array([[-2.0, 0.3], [2.0, -0.2]]), np.array([1, 0])


@installed
@pytest.mark.parametrize("package", ["dice", "nice"])
def test_the_packages_cross_the_boundary_and_every_question_is_counted(package: Package) -> None:
    lender = Thresholds(-0.1, 0.0, 0.1)
    rival = Packaged(package)
    rival.fit(problem(lender))
    answers = rival.explain(RECORDS, TARGET)
    assert answers[0, 0] > 0 > answers[1, 0]
    assert lender.count == rival.queries.distinct <= rival.queries.asked
    assert rival.queries.distinct > 2


def test_without_the_environment_the_command_that_makes_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="make rivals"):
        Packaged("nice", tmp_path / "python").fit(problem(Thresholds(0.0)))


def test_a_child_that_ends_early_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nread task\necho '{\"found\": [0.5, 0.0]}'\necho 'out of memory' >&2\n")
    python.chmod(0o755)
    rival = Packaged("dice", python)
    rival.fit(problem(Thresholds(0.0)))
    with pytest.raises(PackageError, match="answered 1 of 2 records, then ended: out of memory"):
        rival.explain(RECORDS, TARGET)
