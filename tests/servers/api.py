"""The service with an explainer that explains: in the API's process, or in two workers behind HTTP."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from uuid import UUID, uuid4

import httpx
from prometheus_client import CollectorRegistry

from app.auth import queries
from app.auth.service import add_tenant
from app.db.engine import Database, open_database
from app.ensembles import directory
from app.explain.contract import Explainer
from app.explain.engine.resident import open_resident
from app.explain.remote import RemoteExplainer
from app.main import create_app
from app.resources import Resources
from app.settings import Settings
from tests.app.api.conftest import client
from tests.fakes.service import Bell
from tests.published import Saved, activate, publish
from tests.servers.http import serving
from worker.explain_server import make_app

WORKER_KEY = "between us"
MODEL = "loans"


@dataclass(frozen=True, eq=False)
class Lender:
    """A tenant with a model of two versions, of which the first is active, and a client."""

    resources: Resources
    tenant_id: int
    versions: tuple[UUID, UUID]
    client: httpx.Client

    @property
    def database(self) -> Database:
        return self.resources.database

    @property
    def ensemble_id(self) -> int:
        with self.database.reading() as connection:
            row = directory.find_ensemble(connection, self.tenant_id, MODEL)
        assert row is not None
        return int(row.id)

    def activate(self, number: int) -> None:
        activate(self.database, self.tenant_id, MODEL, self.versions[number - 1])


@dataclass(frozen=True, eq=False)
class ExplainService:
    """The running service."""

    url: str
    resources: Resources
    saved: tuple[Saved, Saved]

    @contextmanager
    def lender(self) -> Iterator[Lender]:
        resources, name = self.resources, uuid4().hex
        key = add_tenant(resources.database, resources.keyring, name).text
        with resources.database.reading() as connection:
            tenant_id = queries.find_tenant(connection, name)
        assert tenant_id is not None
        first, second = (publish(resources.database, resources.artifacts, tenant_id, MODEL, one) for one in self.saved)
        with client(self.url, key) as http:
            lender = Lender(resources, tenant_id, (first, second), http)
            lender.activate(1)
            yield lender


@contextmanager
def explain_service(settings: Settings, saved: tuple[Saved, Saved], workers: int) -> Iterator[ExplainService]:
    """`workers` 0: the explainer is in the API's process."""
    with ExitStack() as stack:
        database = open_database(settings.database)
        stack.callback(database.close)
        explainer: Explainer
        if workers:
            urls = [stack.enter_context(_worker(settings)) for _ in range(workers)]
            explainer = RemoteExplainer(urls, WORKER_KEY)
        else:
            explainer = open_resident(settings, database)
        app = create_app(settings, database, explainer, Bell())
        url = stack.enter_context(serving(app, explainer.close))
        yield ExplainService(url, app.state.resources, saved)


@contextmanager
def _worker(settings: Settings) -> Iterator[str]:
    database = open_database(settings.database)
    resident = open_resident(settings, database)
    with serving(make_app(resident, WORKER_KEY, CollectorRegistry()), resident.close) as url:
        yield url
    database.close()
