"""Versions are loaded before anybody asks: at the start, when one becomes active, and whatever else is broken."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from threading import Event
from typing import cast
from uuid import UUID

import pytest
from pydantic import SecretStr

from app.artifacts import open_store
from app.commands.serve import _open_explainer
from app.db.engine import Database
from app.explain.contract import ExplainRequest, ExplainTask
from app.explain.engine import versions
from app.explain.engine.resident import ResidentExplainer
from app.explain.engine.versions import Key, LoadedVersion
from app.metrics import Metrics
from app.settings import Settings
from models.errors import ArtifactError
from models.model import RecourseModel
from tests.app.conftest import Customer
from tests.fakes.lending import APPROVED, Lending
from tests.patience import BOUND
from tests.published import publish, save_two


class Loader:
    """Versions by number: some are broken, all wait until they may be loaded. It knows what was loaded and opened."""

    def __init__(self, broken: Sequence[int] = (), slow: bool = False) -> None:
        self.broken, self.loaded, self.opened = broken, list[int](), list[int]()
        self.may = Event()
        if not slow:
            self.may.set()

    def __call__(self, tenant_id: int, version_id: UUID) -> LoadedVersion:
        assert self.may.wait(BOUND)
        if version_id.int in self.broken:
            raise ArtifactError("the disk is away")
        self.loaded.append(version_id.int)
        return LoadedVersion(cast(RecourseModel, None), lambda: self.opened.append(version_id.int))  # type: ignore[arg-type, return-value]


class Active:
    """The list of active versions; it may fail."""

    def __init__(self, *numbers: int) -> None:
        self.numbers, self.fails = numbers, False

    def __call__(self) -> list[Key]:
        if self.fails:
            raise OSError("away")
        return [(1, UUID(int=number)) for number in self.numbers]


def run(load: Loader, active: Active, work: Callable[[ResidentExplainer], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(BOUND):
            explainer = ResidentExplainer(load, active=active)
            explainer.start()
            try:
                await work(explainer)
            finally:
                load.may.set()
                await explainer.close()

    asyncio.run(whole())


async def until(reached: Callable[[], Awaitable[bool]]) -> None:
    while not await reached():
        await asyncio.sleep(0.01)


async def ready(explainer: ResidentExplainer) -> bool:
    return (await explainer.state()).ready


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "LOOK_SECONDS", 0.02)


def test_it_is_ready_when_the_active_versions_are_loaded_and_their_ensembles_open() -> None:
    load = Loader(slow=True)

    async def work(explainer: ResidentExplainer) -> None:
        await until(lambda: said(explainer, "2 models are still being loaded"))
        assert not await ready(explainer)
        load.may.set()
        await until(lambda: ready(explainer))
        assert (load.loaded, load.opened) == ([1, 2], [1, 2])
        assert (await explainer.state()).versions == 2

    run(load, Active(1, 2), work)


async def said(explainer: ResidentExplainer, reason: str | None) -> bool:
    return (await explainer.state()).reason == reason


def test_one_that_becomes_active_is_loaded_once_and_the_explainer_stays_ready() -> None:
    load, active = Loader(), Active()

    async def work(explainer: ResidentExplainer) -> None:
        await until(lambda: ready(explainer))
        load.may.clear()
        active.numbers = (7,)
        await asyncio.sleep(0.1)
        assert await ready(explainer)
        load.may.set()

        async def loaded() -> bool:
            return bool(load.loaded)

        await until(loaded)
        await asyncio.sleep(0.1)
        assert load.loaded == [7]

    run(load, active, work)


def test_what_is_broken_keeps_nothing_else_cold() -> None:
    load, active = Loader(broken=(1,)), Active(1, 2)

    async def work(explainer: ResidentExplainer) -> None:
        await until(lambda: ready(explainer))
        assert load.loaded == [2]
        active.fails = True
        await asyncio.sleep(0.1)
        active.fails, active.numbers = False, (1, 2, 3)

        async def third() -> bool:
            return load.loaded == [2, 3]

        await until(third)

    run(load, active, work)


def test_it_is_not_ready_while_no_active_version_can_be_read() -> None:
    """/readyz was 200 with the artifacts gone, and every /explain a 500."""
    load, active = Loader(broken=(1, 2)), Active(1, 2)

    async def work(explainer: ResidentExplainer) -> None:
        await until(lambda: said(explainer, "2 of 2 active models cannot be read: see the explainer's log"))
        assert not await ready(explainer)
        load.broken = (1,)  # Somebody restores one; it is found without a restart.
        await until(lambda: ready(explainer))
        assert (await explainer.state()).reason == "1 of 2 active models cannot be read: see the explainer's log"
        load.broken = ()
        await until(lambda: said(explainer, None))
        assert sorted(load.loaded) == [1, 2]

    run(load, active, work)


def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "START_SECONDS", 0.2)

    async def work(explainer: ResidentExplainer) -> None:
        assert not await ready(explainer)
        await until(lambda: ready(explainer))

    run(Loader(slow=True), Active(1), work)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_embedded_service_starts_warm(
    tmp_path: Path, database: Database, database_url: str, customer: Customer, lending: Lending
) -> None:
    settings = Settings(var_dir=tmp_path, database_url=SecretStr(database_url))
    saved = save_two(lending, tmp_path / "saved")[0]
    version_id = publish(database, open_store(settings), customer.tenant_id, "loans", saved)

    async def whole() -> None:
        explainer = _open_explainer(settings, database, Metrics())
        explainer.start()
        assert not (await explainer.state()).ready
        async with asyncio.timeout(BOUND):
            while not (await explainer.state()).ready:
                await asyncio.sleep(0.05)
        assert (await explainer.state()).versions == 1
        request = ExplainRequest(model="loans", records=lending.refused[:1], target=APPROVED, candidates=4)
        task = ExplainTask(request, customer.tenant_id, version_id)
        assert (await explainer.explain(task)).records[0].status != "error"
        await explainer.close()

    asyncio.run(whole())
