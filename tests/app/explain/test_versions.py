"""Versions in memory: loaded once, the least recently used one leaves, and what was published is what is loaded."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update

from app.artifacts import open_store
from app.auth.keyring import open_keyring
from app.db.engine import Database
from app.db.tables import ModelVersion
from app.ensembles import directory
from app.ensembles.directory import EnsembleDirectory
from app.ensembles.meter import EnsembleMeter
from app.errors import ConflictError, NotFoundError
from app.explain.engine.versions import LoadedVersion, VersionCache, VersionSource
from app.ledger.ledger import Ledger
from app.settings import Settings
from models.data.schema import Schema
from models.errors import ArtifactError
from models.model import RecourseModel
from tests.app.conftest import Customer
from tests.fakes.lending import Lending
from tests.published import publish, save_two


def no_meter() -> EnsembleMeter:
    raise AssertionError("nobody asks here")


class CountingLoader:
    """Counts the loads; the first of a version that is told to fail does."""

    def __init__(self) -> None:
        self.loads: list[int] = []
        self.failing: set[int] = set()

    def __call__(self, tenant_id: int, version_id: UUID) -> LoadedVersion:
        self.loads.append(version_id.int)
        if version_id.int in self.failing:
            self.failing.discard(version_id.int)
            raise ArtifactError("the disk is away")
        return LoadedVersion(cast(RecourseModel, None), no_meter)


def test_each_is_loaded_once_and_the_least_recently_used_leaves() -> None:
    async def scenario() -> None:
        loader = CountingLoader()
        cache = VersionCache(loader, capacity=2)
        first, again = await asyncio.gather(cache.get(1, UUID(int=1)), cache.get(1, UUID(int=1)))
        assert first is again
        await cache.get(1, UUID(int=2))
        assert await cache.get(1, UUID(int=1)) is first
        await cache.get(1, UUID(int=3))
        assert len(cache) == 2
        assert await cache.get(1, UUID(int=1)) is first
        assert loader.loads == [1, 2, 3]
        await cache.get(1, UUID(int=2))
        assert loader.loads == [1, 2, 3, 2]
        cache.close()

    asyncio.run(scenario())


def test_a_failed_load_is_tried_again_and_a_cancelled_wait_fails_nobody() -> None:
    async def scenario() -> None:
        loader = CountingLoader()
        loader.failing = {1}
        cache = VersionCache(loader, capacity=2)
        with pytest.raises(ArtifactError):
            await cache.get(1, UUID(int=1))
        assert len(cache) == 0
        impatient = asyncio.create_task(cache.get(1, UUID(int=1)))
        patient = asyncio.create_task(cache.get(1, UUID(int=1)))
        await asyncio.sleep(0)
        impatient.cancel()
        assert isinstance(await patient, LoadedVersion)
        assert loader.loads == [1, 1]
        cache.close()

    asyncio.run(scenario())


def test_only_what_was_published_is_loaded(
    database: Database, ledger: Ledger, customer: Customer, lending: Lending, tmp_path: Path
) -> None:
    settings = Settings(var_dir=tmp_path / "var")
    store = open_store(settings)
    source = VersionSource(
        database, EnsembleDirectory(settings, database, ledger, open_keyring(settings, database)), store
    )
    version_id = publish(database, store, customer.tenant_id, "loans", save_two(lending, tmp_path)[0])
    loaded = source.load(customer.tenant_id, version_id)
    assert loaded.model.classes == lending.model.classes
    assert loaded.meter() is loaded.meter()
    assert loaded.meter().member_names == ("knn", "forest")
    for tenant_id, wanted in ((customer.tenant_id + 1, version_id), (customer.tenant_id, uuid4())):
        with pytest.raises(NotFoundError):
            source.load(tenant_id, wanted)
    with database.writing() as connection:
        connection.execute(update(ModelVersion).values(digest="0" * 64))
    with pytest.raises(ArtifactError, match="missing or damaged") as refused:
        source.load(customer.tenant_id, version_id)
    assert "was published" in str(refused.value.__cause__)


ENDPOINT = {"url": "https://lender.example", "model": "m", "members": ["a"], "outputs": ["a"], "layout": "columns"}


def test_an_ensemble_that_was_registered_with_another_schema_is_not_asked(
    database: Database, ledger: Ledger, customer: Customer, lending: Lending, tmp_path: Path
) -> None:
    """Its classes may stand in another order: a refusal would be counted as a yes."""
    settings = Settings(var_dir=tmp_path / "var", blackbox_hosts=("lender.example",))
    store, registry = (
        open_store(settings),
        EnsembleDirectory(settings, database, ledger, open_keyring(settings, database)),
    )
    saved, owner = save_two(lending, tmp_path)[0], (customer.tenant_id, customer.ensemble_id)
    schema = saved.model.encoder.schema
    version_id = publish(database, store, customer.tenant_id, "loans", saved, customer.ensemble_id)

    def register(described: Schema) -> None:
        with database.writing() as connection:
            endpoints = [ENDPOINT | {"seconds": 1.0}]
            directory.describe_remote(connection, *owner, "2", described.to_json(), endpoints, None)

    register(schema)
    meter = VersionSource(database, registry, store).load(customer.tenant_id, version_id).meter
    assert meter().member_names == ("a",)
    for other, why in (
        (replace(schema, classes=schema.classes[::-1]), "classes are refused, approved"),
        (replace(schema, features=schema.features[::-1]), "features, or their order"),
        (with_categories_turned(schema, "housing"), "'housing'"),
    ):
        register(other)
        with pytest.raises(ConflictError, match=why):
            meter()
    registry.close()


def with_categories_turned(schema: Schema, name: str) -> Schema:
    listed = schema.features[schema.index(name)].categories
    return schema.with_overrides({"features": {name: {"categories": list(listed[::-1])}}})
