"""This machine's pip settings for a build: `python pip_settings.py FILE` writes them, prints the mounts they need."""

import re
import subprocess
import sys
from pathlib import Path

ADDRESSES = ("index-url", "extra-index-url", "find-links", "cert", "trusted-host", "proxy", "timeout")


def settings() -> dict[str, str]:
    """What `pip config list` says, whichever file or variable it comes from; variables win, as they do in pip."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True)
    found: dict[str, str] = {}
    for line in sorted(listed.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        found[re.split(r"[.]", name)[-1]] = value.strip("'\"").replace("\\n", " ")
    return {name: value for name, value in found.items() if name in ADDRESSES}


def mounts(chosen: dict[str, str]) -> list[str]:
    """The folders and files of this machine that the settings name."""
    words = " ".join(chosen.values()).split()
    places = {word.removeprefix("file://") for word in words if word.startswith(("/", "file://"))}
    roots = {str(Path(*Path(place).parts[:3])) if Path(place).is_dir() else place for place in places}
    return [f"--volume={place}:{place}:ro" for place in sorted(roots) if Path(place).exists()]


if __name__ == "__main__":
    chosen = settings()
    lines = ["[global]", *(f"{name} = {value}" for name, value in chosen.items())]
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join(mounts(chosen)) + "\n")
