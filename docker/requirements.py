"""What an image installs before its code is there: `python requirements.py [group]` prints pyproject.toml's names."""

import sys
import tomllib
from pathlib import Path

PROJECT = Path("pyproject.toml")
OURS = "recourse-client"
"""It is installed from its own folder, with the code."""


def requirements(groups: list[str]) -> list[str]:
    """The plain install's, and those of the groups."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    found: list[str] = list(project["dependencies"])
    for group in groups:
        found += project["optional-dependencies"][group]
    return [name for name in found if not name.startswith(OURS)]


if __name__ == "__main__":
    sys.stdout.write("\n".join(requirements(sys.argv[1:])) + "\n")
