"""Model versions in memory: read from the artifact store once, kept while they are used, loaded before anybody asks."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias
from uuid import UUID

import structlog
from async_lru import alru_cache
from sqlalchemy.exc import SQLAlchemyError

from app.artifacts import ArtifactStore
from app.db.engine import Database
from app.db.tables import AnyRow
from app.ensembles.directory import EnsembleDirectory
from app.ensembles.meter import EnsembleMeter
from app.errors import NotFoundError
from app.registry import queries
from models.data.policy import Policy
from models.errors import ArtifactError
from models.model import RecourseModel
from models.storage.artifact import load_ensemble_of, load_model
from models.storage.sealed import check_seal

MOST_POLICIES = 8
"""Of a version in memory; policies are replaced seldom."""
Key: TypeAlias = tuple[int, UUID]
"""Tenant and version."""


@dataclass(frozen=True, eq=False)
class LoadedVersion:
    """One version, ready to search, and the metered way to its ensemble.

    `meter` blocks, and may raise an ArtifactError or a NotFoundError: an ensemble is opened when a task asks it.
    """

    model: RecourseModel
    meter: Callable[[], EnsembleMeter]
    _under: "dict[str, LoadedVersion]" = field(default_factory=dict, repr=False)

    def under(self, policy: dict[str, Any] | None) -> "LoadedVersion":
        """The version with another action policy, the same for equal ones: tasks under it are searched together"""
        if policy is None:
            return self
        wanted = Policy.from_json(policy)
        if wanted.version not in self._under:
            if len(self._under) >= MOST_POLICIES:
                self._under.clear()
            self._under[wanted.version] = LoadedVersion(replace(self.model, policy=wanted), self.meter)
        return self._under[wanted.version]


class VersionCache:
    """At most `capacity` versions; the least recently used one goes first. A search that has one keeps it to the end.

    Each is loaded once, however many tasks want it at the same time; a load that failed is tried again by the next.
    It is used on one event loop.
    """

    def __init__(self, load: Callable[[int, UUID], LoadedVersion], capacity: int) -> None:
        """`load` blocks; it runs in a thread of its own."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="load")
        self.broken: set[Key] = set()
        """Those whose files were missing or damaged when they were last wanted."""

        @alru_cache(maxsize=capacity)
        async def load_once(tenant_id: int, version_id: UUID) -> LoadedVersion:
            return await asyncio.get_running_loop().run_in_executor(self._thread, load, tenant_id, version_id)

        self._load_once = load_once

    async def get(self, tenant_id: int, version_id: UUID) -> LoadedVersion:
        """The version, from memory if it is there; ArtifactError where its files cannot be read."""
        key = (tenant_id, version_id)
        try:
            version = await self._load_once(tenant_id, version_id)
        except ArtifactError as error:
            if key not in self.broken:
                logger.error("model cannot be read", version=str(version_id), reason=str(error.__cause__ or error))
                self.broken.add(key)
            raise
        self.broken.discard(key)
        return version

    def __len__(self) -> int:
        return self._load_once.cache_info().currsize

    def close(self) -> None:
        """Forget every version."""
        self._load_once.cache_clear()
        self._thread.shutdown(wait=False, cancel_futures=True)


logger = structlog.get_logger("recourse.explain")
READING = Lock()
"""One file is read at a time: numpy parses headers with `ast`, which CPython 3.11 cannot do in two threads at once
(gh-106905)."""


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    """Callers are told what to do; which file it is, and where, is the cause, and for the log."""
    try:
        yield
    except (ArtifactError, OSError) as error:
        raise ArtifactError(
            "the files of this version of the model are missing or damaged in the artifact store: the operator "
            "restores them; until then activate another version or train again"
        ) from error


class VersionSource:
    """Loads what a training published; it blocks."""

    def __init__(
        self, database: Database, ensembles: EnsembleDirectory, store: ArtifactStore, device: str = "cpu"
    ) -> None:
        self._database = database
        self._ensembles = ensembles
        self._store = store
        self._device = device

    def load(self, tenant_id: int, version_id: UUID) -> LoadedVersion:
        """The tenant's version; its bytes must be those that were published."""
        with self._database.reading() as connection:
            row = queries.find_place(connection, tenant_id, version_id)
        if row is None:
            raise NotFoundError(f"there is no model version {version_id}: see GET /models")
        with _in_one_sentence(), READING:
            folder = self._store.fetch_folder(row.location)
            found = check_seal(folder)
            if found != row.digest:
                fact = f"the model in '{row.location}' has the hash {found}, but {row.digest} was published"
                raise ArtifactError(fact)
            model = load_model(folder, self._device)
        if row.ensemble_kind == "remote":
            # Not kept: its row may change at any time, and the directory keeps what is open.
            schema = model.encoder.schema
            return LoadedVersion(model, partial(self._ensembles.remote, tenant_id, row.ensemble_id, schema))
        return LoadedVersion(model, _LocalMeter(self._ensembles, tenant_id, row, folder))

    def active(self, most: int) -> list[Key]:
        """The versions of all tenants that answer now, the newest first, at most so many."""
        with self._database.reading() as connection:
            return [(row.tenant_id, row.version_id) for row in queries.list_active(connection, most)]


class _LocalMeter:
    """The ensemble that was saved with the model: loaded when it is first asked, then kept."""

    def __init__(self, ensembles: EnsembleDirectory, tenant_id: int, row: AnyRow, folder: Path) -> None:
        self._ensembles = ensembles
        self._owner = (tenant_id, int(row.ensemble_id), str(row.ensemble_version))
        self._folder = folder
        self._meter: EnsembleMeter | None = None
        self._lock = Lock()

    def __call__(self) -> EnsembleMeter:
        with self._lock:
            if self._meter is None:
                with _in_one_sentence(), READING:
                    ensemble = load_ensemble_of(self._folder)
                self._meter = self._ensembles.local(ensemble, *self._owner)
            return self._meter


LOOK_SECONDS = 5.0
START_SECONDS = 120.0
"""After so long the explainer counts as ready, loaded or not: tasks wait for what they need."""


class Preloader:
    """Loads versions before anybody asks: at the start those that are active, later those that become it.

    A version that is not in memory costs its first caller seconds, on a busy machine more than the deadline. What
    cannot be loaded is logged, and left to the task that wants it.
    """

    def __init__(self, versions: VersionCache, find: Callable[[], Sequence[Key]]) -> None:
        """`find` blocks, and lists the active versions, the most important first."""
        self._versions, self._find = versions, find
        self._until = time.monotonic() + START_SECONDS
        self._seen: set[Key] = set()
        self._left: int | None = None

    @property
    def reason(self) -> str | None:
        """Why the explainer is not ready yet; None once the versions of the start are loaded."""
        if self._left == 0 or time.monotonic() > self._until:
            return None
        return "the models are being looked up" if self._left is None else f"{self._left} models are still being loaded"

    @property
    def broken(self) -> tuple[int, int]:
        """How many of the active versions cannot be read, and how many were looked at."""
        return len(self._seen & self._versions.broken), len(self._seen)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                found = await asyncio.to_thread(self._find)
                await self._load([key for key in found if key not in self._seen or key in self._versions.broken])
                # One that is no longer active is loaded again when it becomes active again.
                self._seen = set(found)
            # It is away, which others say as well: it must not end the preloading.
            except SQLAlchemyError as error:
                logger.warning("active models not found", reason=type(error).__name__)
            except Exception as error:
                logger.warning("active models not found", reason=type(error).__name__, exc_info=error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _load(self, keys: Sequence[Key]) -> None:
        for place, (tenant_id, version_id) in enumerate(keys):
            if self._left != 0:
                self._left = len(keys) - place
            try:
                version = await self._versions.get(tenant_id, version_id)
                # The ensemble too: a verified search asks it.
                await asyncio.to_thread(version.meter)
            except ArtifactError:
                continue
            # One version that is broken keeps no other one cold.
            except Exception as error:
                logger.warning("model not loaded", version=str(version_id), reason=str(error))
        self._left = 0
