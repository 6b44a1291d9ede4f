"""A sealed folder: written whole or not at all, and refused when a byte of it has changed.

manifest.json lists the SHA-256 of every other file. The content hash is taken over that list and names the version: two
folders with the same hash hold the same bytes. `write_whole` is how every file and folder of the project is written
that must be there whole or not at all.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..data.json_fields import read_object
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
    try:
        with write_whole(folder) as partial:
            partial.mkdir()
            write(partial)
            return _seal(partial)
    except OSError as error:
        raise ArtifactError(f"Nothing was written to '{folder}': {error.strerror or error}.") from error


@contextmanager
def write_whole(target: Path) -> Iterator[Path]:
    """A path beside `target` to write a file or a folder to; once the disk holds it, it takes the target's place.

    On an error, or if the process is killed, nothing stands at the target.
    """
    if not target.parent.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}-{secrets.token_hex(4)}.partial")
    try:
        yield partial
        for path in (*partial.rglob("*"), partial):
            _flush(path)
        partial.rename(target)
        _flush(target.parent)
    finally:
        remove(partial)


def remove(path: Path) -> None:
    """A folder or a file; one that is not there is fine."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def check_seal(folder: Path) -> str:
    """The content hash of a sealed folder, after a look at every byte; ArtifactError where anything is amiss."""
    manifest = read_object(folder / MANIFEST)
    found = (manifest.get("format"), manifest.get("version"))
    if found != (FORMAT, VERSION):
        raise ArtifactError(f"'{folder}' holds {found[0]!r} of version {found[1]!r}, not {FORMAT!r} of {VERSION}.")
    listed = manifest.get("files")
    if not isinstance(listed, dict) or manifest.get("hash") != _content_hash(listed):
        raise ArtifactError(f"The manifest of '{folder}' does not fit its own hash; fetch the model again.")
    actual = _digests(folder)
    for name in sorted(listed.keys() | actual.keys()):
        if listed.get(name) != actual.get(name):
            fact = "is missing" if name not in actual else "is damaged" if name in listed else "does not belong there"
            raise ArtifactError(f"The file '{name}' of '{folder}' {fact}; fetch the model again.")
    return _content_hash(listed)


def write_object(path: Path, document: Mapping[str, object]) -> None:
    """The document as JSON, one text for equal documents."""
    try:
        text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise ArtifactError(f"'{path.name}' would hold a number that is not finite; train the model again.") from error
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


def _flush(path: Path) -> None:
    """Wait until the disk holds the file, or the list of the folder's files."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
