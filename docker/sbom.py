"""What the images install, as CycloneDX JSON: `python docker/sbom.py FOLDER [IMAGE...]` writes sbom-IMAGE.json.

It is made from the lists that pip installs with hashes, and so names nothing that is not there. The base image's own
packages are not in it.
"""

import subprocess
import sys
from pathlib import Path

DOCKER = Path(__file__).parent
IMAGES = {"api": ("api",), "worker": ("worker", "torch-cpu"), "worker-cuda": ("worker", "torch-cuda")}


def main(folder: Path, images: list[str]) -> None:
    for image in images or IMAGES:
        texts = [(DOCKER / f"requirements-{name}.txt").read_text(encoding="utf-8") for name in IMAGES[image]]
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "cyclonedx_py",
            "requirements",
            "--output-reproducible",
            "--of",
            "JSON",
        ]
        command += ["--pyproject", str(DOCKER.parent / "pyproject.toml"), "--mc-type", "application"]
        command += ["-o", str(folder / f"sbom-{image}.json"), "-"]
        subprocess.run(command, input="".join(texts), text=True, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
