"""A service over HTTP, on SQLite and on Postgres: one server a file of tests, and two new tenants a test."""

import shutil
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from app.auth import queries
from app.auth.service import add_tenant, make_key
from app.db.engine import Database, open_database
from app.db.tables import Role
from app.main import create_app
from app.resources import Resources
from app.settings import Settings
from tests.fakes.endpoints import HostileServer
from tests.fakes.endpoints import serving as serving_lender
from tests.fakes.service import Bell, SilentExplainer
from tests.patience import BOUND
from tests.servers.http import serving
from tests.servers.postgres import new_database

METRICS_KEY = "the operator's Prometheus"


@dataclass(frozen=True)
class Server:
    """The running service."""

    url: str
    app: FastAPI
    resources: Resources
    explainer: SilentExplainer
    bell: Bell
    lender: HostileServer


@dataclass(frozen=True)
class Service:
    """A tenant of the service, and a client for each role; `stranger` is another tenant's admin."""

    server: Server
    tenant_id: int
    keys: dict[Role, str] = field(repr=False)
    admin: httpx.Client
    analyst: httpx.Client
    client: httpx.Client
    viewer: httpx.Client
    stranger: httpx.Client
    nobody: httpx.Client

    @property
    def resources(self) -> Resources:
        return self.server.resources


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared_database_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a migrated database of this file's own."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("service") / "recourse.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
    else:
        server, template = (request.getfixturevalue(name) for name in ("postgres_server", "postgres_template"))
        with new_database(server, f"recourse_{uuid4().hex}", template) as url:
            yield url


@pytest.fixture(scope="module")
def server(shared_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    shared_database = open_database(shared_database_url)
    explainer, bell = SilentExplainer(), Bell()
    with serving_lender() as lender:
        settings = service_settings(shared_database_url, tmp_path_factory.mktemp("var"), lender.port)
        app = create_app(settings, shared_database, explainer, bell)
        with serving(app) as url:
            yield Server(url, app, app.state.resources, explainer, bell, lender)
        app.state.resources.ensembles.close()
    shared_database.close()


def service_settings(database_url: str, var_dir: Path, lender_port: int = 1) -> Settings:
    """Small limits, so that a test can pass them."""
    return Settings(
        var_dir=var_dir,
        database_url=SecretStr(database_url),
        max_body_bytes=100_000,
        max_upload_bytes=1_000_000,
        max_dataset_rows=5_000,
        max_dataset_columns=50,
        max_streams=3,
        min_free_bytes=0,
        metrics_key=SecretStr(METRICS_KEY),
        blackbox_hosts=(f"127.0.0.1:{lender_port}", "10.0.0.1"),
        blackbox_networks=("127.0.0.0/8",),
        blackbox_plain_http=True,
    )


@pytest.fixture
def database(server: Server) -> Database:
    return server.resources.database


@pytest.fixture
def service(server: Server) -> Iterator[Service]:
    resources = server.resources
    name = f"lender {uuid4().hex}"
    keys = {Role.ADMIN: add_tenant(resources.database, resources.keyring, name).text}
    stranger = add_tenant(resources.database, resources.keyring, f"stranger to {name}").text
    with resources.database.reading() as connection:
        tenant_id = queries.find_tenant(connection, name)
    assert tenant_id is not None
    for role in (Role.ANALYST, Role.CLIENT, Role.VIEWER):
        keys[role] = make_key(resources.database, resources.keyring, tenant_id, role, role)[0].text
    clients = [client(server.url, key) for key in (*(keys[role] for role in ROLES), stranger, None)]
    yield Service(server, tenant_id, keys, *clients)
    for one in clients:
        one.close()


ROLES = (Role.ADMIN, Role.ANALYST, Role.CLIENT, Role.VIEWER)
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Plain HTTP: without it each client reads the certificates of all authorities, which takes longer than many a test."""


def client(url: str, key: str | None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
    return httpx.Client(base_url=url, headers=headers, timeout=BOUND, verify=NO_TLS)
