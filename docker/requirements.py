"""What an image installs before its code is there: `python requirements.py [group]` prints pyproject.toml's names."""

import sys
import tomllib
from pathlib import Path

PROJECT = Path("pyproject.toml")


def requirements(groups: list[str]) -> list[str]:
    """The plain install's, and those of the groups."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    found: list[str] = list(project["dependencies"])
    for group in groups:
        found += project["optional-dependencies"][group]
    return found


if __name__ == "__main__":
    sys.stdout.write("\n".join(requirements(sys.argv[1:])) + "\n")
