"""What the images install, with hashes: `make pins` writes docker/requirements-*.txt.

The names come from pyproject.toml, the versions from constraints.txt.

`python docker/pins.py [CPU]`; CPU is a folder or an index page with torch's CPU build, by default what pip's find-links
name. There are four files: the api's packages, the worker's, and torch for the worker as a CPU build or with CUDA.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PYTHON = "3.11"
BUILD = ["pip", "hatchling", "editables"]
"""They install our own code, which has no hash."""
OURS = "recourse-client"
HEAD = "# Written by `make pins`, not by hand.\n"


def requirements(*groups: str) -> list[str]:
    """The plain install's, and those of the groups."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: list[str] = list(project["dependencies"])
    for group in groups:
        found += project["optional-dependencies"][group]
    return [name for name in found if not name.startswith(OURS)]


def pins(wanted: list[str], *options: str) -> dict[str, str]:
    """Package -> its line with hashes, of all that is wanted and of what that needs."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-header"]
    command += ["--no-annotate", "--no-emit-find-links", "--python-version", PYTHON]
    command += ["--constraint", str(PROJECT / "constraints.txt"), *options, "-"]
    done = subprocess.run(command, input="\n".join(wanted), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    lines = re.findall(r"^(\S+?)==(.*(?:\n .*)*)", done.stdout, re.MULTILINE)
    return {name: f"{name}=={rest}" for name, rest in lines}


def write(name: str, lines: dict[str, str]) -> None:
    text = HEAD + "\n".join(lines.values()) + "\n"
    (PROJECT / "docker" / f"requirements-{name}.txt").write_text(text, encoding="utf-8")


def main(cpu: str) -> None:
    worker = pins(BUILD + requirements("worker"), "--find-links", cpu)
    torch = {"torch": worker.pop("torch")}
    cuda = pins(["torch"])
    write("api", pins(BUILD + requirements()))
    write("worker", worker)
    write("torch-cpu", torch)
    write("torch-cuda", {name: line for name, line in cuda.items() if name not in worker})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["PIP_FIND_LINKS"])
