"""A sealed folder: written whole or not at all, and refused when a byte of it has changed.

manifest.json lists the SHA-256 of every other file. The content hash is taken over that list and names the version: two
folders with the same hash hold the same bytes.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import ArtifactError

FORMAT = "recourse-model"
VERSION = 1
MANIFEST = "manifest.json"


def require_free(folder: Path) -> None:
    """ArtifactError unless the folder can be written: it is not there yet, or it is empty."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ArtifactError(f"'{folder}' is not a folder, so nothing is written there; name a new folder.")
    if folder.is_dir() and any(folder.iterdir()):
        raise ArtifactError(f"The folder '{folder}' is not empty, so nothing is written there; name a new folder.")


def write_sealed(folder: Path, write: Callable[[Path], None]) -> str:
    """Let `write` fill a new folder, seal it and move it into its place at once; returns the content hash."""
    require_free(folder)
    folder = folder.resolve()
    partial = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}.partial")
    try:
        partial.mkdir(parents=True)
        write(partial)
        content_hash = _seal(partial)
        _flush(partial)
        partial.rename(folder)
        _flush_one(folder.parent)
    except OSError as error:
        raise ArtifactError(f"Nothing was written to '{folder}': {error.strerror or error}.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return content_hash


def check_seal(folder: Path) -> str:
    """The content hash of a sealed folder, after a look at every byte; ArtifactError where anything is amiss."""
    manifest = read_object(folder / MANIFEST)
    found = (manifest.get("format"), manifest.get("version"))
    if found != (FORMAT, VERSION):
        raise ArtifactError(f"'{folder}' holds {found[0]!r} of version {found[1]!r}, not {FORMAT!r} of {VERSION}.")
    listed = manifest.get("files")
    if not isinstance(listed, dict) or manifest.get("hash") != _content_hash(listed):
        raise ArtifactError(f"The manifest of '{folder}' does not fit its own hash; fetch the model anew.")
    actual = _digests(folder)
    for name in sorted(listed.keys() | actual.keys()):
        if listed.get(name) != actual.get(name):
            fact = "is missing" if name not in actual else "is damaged" if name in listed else "does not belong there"
            raise ArtifactError(f"The file '{name}' of '{folder}' {fact}; fetch the model anew.")
    return _content_hash(listed)


def read_object(path: Path) -> Mapping[str, object]:
    """The JSON object in a file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"The file '{path}' is missing or is not JSON; fetch the model anew.") from error
    if not isinstance(document, dict):
        raise ArtifactError(f"The file '{path}' does not hold a JSON object; fetch the model anew.")
    return document


def write_object(path: Path, document: Mapping[str, object]) -> None:
    """The document as JSON, one text for equal documents."""
    try:
        text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise ArtifactError(f"'{path.name}' would hold a number that is not finite; train the model anew.") from error
    path.write_text(text + "\n", encoding="utf-8")


def _seal(folder: Path) -> str:
    files = _digests(folder)
    content_hash = _content_hash(files)
    write_object(folder / MANIFEST, {"format": FORMAT, "version": VERSION, "files": files, "hash": content_hash})
    return content_hash


def _content_hash(files: Mapping[str, object]) -> str:
    text = json.dumps([FORMAT, VERSION, sorted(files.items())])
    return hashlib.sha256(text.encode()).hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file save the manifest, by its path within the folder."""
    digests = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != MANIFEST:
            with path.open("rb") as file:
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def _flush(folder: Path) -> None:
    """Wait until the disk holds all of the folder."""
    for path in (*folder.rglob("*"), folder):
        _flush_one(path)


def _flush_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
