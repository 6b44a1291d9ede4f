"""Postgres is restarted under the service: it says so while it is away, and recovers by itself."""

from pathlib import Path

import httpx

from app.auth.service import add_tenant
from app.db import migrations
from app.db.engine import open_database
from app.main import create_app
from tests.app.api.conftest import client, service_settings
from tests.fakes.service import Bell, SilentExplainer
from tests.servers.http import serving
from tests.servers.postgres import own_postgres


def test_the_service_outlives_a_restart(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        database = open_database(postgres.get_uri())
        migrations.upgrade(database)
        app = create_app(service_settings(postgres.get_uri(), tmp_path), database, SilentExplainer(), Bell())
        key = add_tenant(database, app.state.resources.keyring, "lender").text
        with serving(app) as url, client(url, key) as http:
            assert http.get("/keys").status_code == 200
            postgres.stop()
            postgres.start()
            assert http.get("/keys").status_code == 200, "nobody had noticed that the connections are gone"
            postgres.stop()
            away = http.get("/keys")
            assert (away.status_code, away.json()["type"]) == (503, "/problems/unavailable")
            assert "127.0.0.1" not in away.text and "SELECT" not in away.text
            assert failing(http) == ["database"]
            postgres.start()
            assert http.get("/keys").status_code == 200, "the first call after the outage"
            assert http.post("/keys", json={"name": "new"}).status_code == 201
            assert failing(http) == []
        database.close()


def failing(http: httpx.Client) -> list[str]:
    return [part["name"] for part in http.get("/readyz").json()["parts"] if not part["ready"]]
