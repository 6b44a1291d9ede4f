"""The documentation builds as `make docs` builds it: no broken link, no path of the code that is not there."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.patience import BOUND

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not in the plain install")
def test_the_documentation_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BOUND)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "ARCHITECTURE.html").exists()
