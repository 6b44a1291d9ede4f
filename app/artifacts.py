"""The store of files that several processes share: data sets, checkpoints, models. A folder, or s3:// through fsspec.

A location is the name within the store, so that a store can move. A local store is used in place; files of any other
are fetched once into a cache. Whatever has a name is complete and never changes: names hold hashes or counters.
"""

import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import fsspec

from app.settings import Settings
from models.errors import ArtifactError, ConfigError
from models.storage.sealed import remove, write_whole

COMPLETE = "manifest.json"
"""The last file to be written into a folder of a remote store: the folder is complete once it is there."""

LOCK = ".downloads"
"""The file in a cache that a process locks while it downloads into the cache."""


class ArtifactStore:
    """Files and folders by name."""

    def __init__(self, url: str, cache: Path) -> None:
        """`url` is a folder or anything that fsspec knows; `cache` is where files of a remote store are kept."""
        try:
            self._files, root = fsspec.url_to_fs(url)
        except (ImportError, ValueError) as error:
            fact = f"The artifact store '{url}' cannot be used: {error}"
            raise ConfigError(f"{fact}; see RECOURSE_ARTIFACTS_URL.") from error
        self._root = str(root).rstrip("/")
        self._local = Path(self._root) if "file" in _protocols(self._files) else None
        self._cache = cache

    def put_folder(self, local: Path, name: str) -> str:
        """Copy a sealed folder into the store, whole or not at all; its location. A name that is taken stays."""
        place = self._place(name)
        if self._local is not None:
            _copy(local, self._local / name)
        elif not self._files.exists(f"{place}/{COMPLETE}"):
            for path in sorted(local.rglob("*"), key=lambda path: (path.name == COMPLETE, path)):
                if path.is_file():
                    self._files.put_file(str(path), f"{place}/{path.relative_to(local).as_posix()}")
        return name

    def seal_folder(self, name: str, write: Callable[[Path], str]) -> str:
        """Let `write` make a sealed folder under that name; its content hash.

        It writes whole or not at all by itself (models/storage/sealed.py), so that a local store needs no copy of it.
        """
        self._place(name)
        if self._local is not None:
            return write(self._local / name)
        with tempfile.TemporaryDirectory(prefix="recourse-") as scratch:
            folder = Path(scratch) / "made"
            digest = write(folder)
            self.put_folder(folder, name)
        return digest

    def put_file(self, local: Path, name: str) -> str:
        """Copy a file into the store; its location. A name that is taken stays."""
        place = self._place(name)
        if self._local is not None:
            _copy(local, self._local / name)
        elif not self._files.exists(place):
            self._files.put_file(str(local), place)
        return name

    def fetch_folder(self, location: str) -> Path:
        """The folder on this machine's disk; it is not the caller's to change."""
        return self._fetch(location, f"{self._place(location)}/{COMPLETE}")

    def fetch_file(self, location: str) -> Path:
        """The file on this machine's disk; it is not the caller's to change."""
        return self._fetch(location, self._place(location))

    def remove(self, location: str) -> None:
        """Forget a file or a folder; one that is not there is fine."""
        place = self._place(location)
        if self._local is not None:
            remove(self._local / location)
            return
        remove(self._cache / location)
        if self._files.exists(place):
            self._files.rm(place, recursive=True)

    def names(self, folder: str) -> list[str]:
        """What is in a folder of the store, each without its folder."""
        place = self._place(folder)
        self._files.invalidate_cache(place)
        return (
            [PurePosixPath(found).name for found in self._files.ls(place, detail=False)]
            if self._files.exists(place)
            else []
        )

    def clean_cache(self) -> None:
        """Remove what killed downloads left behind; while any process downloads into the same cache, nothing."""
        if not self._cache.exists():
            return
        # What cannot be removed now is removed at the next start.
        with suppress(OSError), _holding(self._cache, fcntl.LOCK_EX | fcntl.LOCK_NB):
            for partial in list(self._cache.rglob(".*.partial")):
                remove(partial)

    def _fetch(self, location: str, proof: str) -> Path:
        """The local path of what is whole if `proof` is there."""
        if self._local is not None:
            if not (self._local / location).exists():
                raise _missing(location)
            return self._local / location
        cached = self._cache / location
        if not cached.exists():
            if not self._files.exists(proof):
                raise _missing(location)
            with _holding(self._cache, fcntl.LOCK_SH):
                self._download(location, cached)
        return cached

    def _download(self, location: str, cached: Path) -> None:
        with _first_wins(cached), write_whole(cached) as partial:
            self._files.get(self._place(location), str(partial), recursive=True)

    def _place(self, name: str) -> str:
        """The full path of a name; nothing outside of the store has one."""
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts:
            raise ArtifactError(f"'{name}' is not a name within the artifact store.")
        return f"{self._root}/{name}"


def check_digest(path: Path, digest: str, name: str) -> None:
    """ArtifactError unless the file's SHA-256 is the one that was taken when it was kept."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != digest:
            raise ArtifactError(f"The file of '{name}' is not the one that was uploaded; upload it again.")


OURS = (
    "admin.key",
    "secret.key",
    "demo.log",
    "recourse.db",
    "recourse.db-wal",
    "recourse.db-shm",
    "artifacts",
    "cache",
)
"""What the service keeps in VAR_DIR. Anything else in it is somebody else's."""


def keep_private(settings: Settings) -> None:
    """From now on what is made in VAR_DIR is for this user only; what was made there before is, too.

    An artifact store in a folder elsewhere may be shared with workers of another user: its files follow the umask that
    the operator chose.
    """
    folder, url = settings.var_dir.absolute(), settings.artifacts_url
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {folder} of RECOURSE_VAR_DIR cannot be made: {error.strerror}") from error
    local = url is not None and ("://" not in url or url.startswith("file:"))
    if not local or Path(str(url)).absolute().is_relative_to(folder):
        os.umask(0o077)
    for path in (folder, *(folder / name for name in OURS)):
        _take_from_others(path)
        for inner in path.rglob("*") if path != folder else ():
            _take_from_others(inner)


def _take_from_others(path: Path) -> None:
    """Let only the owner read it; leave what is not ours, or is shared on purpose as /tmp is, as it is."""
    with suppress(OSError):
        found = path.lstat()
        mode = stat.S_IMODE(found.st_mode)
        ours = found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and not mode & stat.S_ISVTX
        if ours and mode & 0o077:
            path.chmod(mode & 0o700)


def open_store(settings: Settings) -> ArtifactStore:
    """The store of RECOURSE_ARTIFACTS_URL, else VAR_DIR/artifacts; its cache is clean."""
    url = settings.artifacts_url or str((settings.var_dir / "artifacts").absolute())
    store = ArtifactStore(url, settings.var_dir.absolute() / "cache")
    store.clean_cache()
    return store


def _protocols(files: fsspec.AbstractFileSystem) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)


def _missing(location: str) -> ArtifactError:
    return ArtifactError(f"'{location}' is not in the artifact store; see RECOURSE_ARTIFACTS_URL, or make it again.")


def _copy(source: Path, target: Path) -> None:
    """A copy that appears at once, after the disk holds all of it."""
    if target.exists():
        return
    with _first_wins(target), write_whole(target) as partial:
        if source.is_dir():
            shutil.copytree(source, partial, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(source, partial)


@contextmanager
def _first_wins(target: Path) -> Iterator[None]:
    """Ignore that another process stored the same first: it is the same content."""
    try:
        yield
    except OSError:
        if not target.exists():
            raise


@contextmanager
def _holding(folder: Path, how: int) -> Iterator[None]:
    """A lock on the folder, shared or not; the system lets go of it when the process ends, however that comes."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as file:
        fcntl.flock(file, how)
        yield
