"""The attacks in small, against a service in this process: they end by themselves, and see what they should."""

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from app.db.tables import Role
from benchmarks.hostile import __main__ as program
from benchmarks.hostile import bodies, connections, races
from benchmarks.hostile.attacks import ATTACKS
from benchmarks.hostile.site import Processes, Site, Tenant
from benchmarks.hostile.verdict import Seen
from models.datasets.loans import loans
from tests.app.api.conftest import Service, database, server, service, shared_database_url
from tests.app.api.rows import add_ensemble
from tests.app.conftest import sqlite_template
from tests.patience import PATIENCE

__all__ = ["database", "server", "service", "shared_database_url", "sqlite_template"]

SECONDS = 0.5 * PATIENCE


@pytest.fixture
def site(service: Service, tmp_path: Path) -> Iterator[Site]:
    """The hostile tenant is the service's own; who is honest does not matter here."""
    add_ensemble(service.resources.database, service.tenant_id, "fast")
    service.admin.put("/budgets/fast", json={"limit": 5})
    table = {"file": ("loans.csv", loans(rows=60, seed=3).frame.to_csv(index=False))}
    dataset = service.analyst.post("/datasets", files=table, data={"label": "decision"}).json()["id"]
    hostile = Tenant("mallory", {role: service.keys[role] for role in Role}, dataset)
    settings = service.resources.settings
    yield Site("embedded", service.server.url, Processes(tmp_path, settings), settings, hostile, (hostile,) * 2, [])


def test_every_attack_has_a_name_of_its_own() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 19
    assert [attack.name for attack in ATTACKS if attack.stops_service] == ["kills between commits"]


@pytest.mark.parametrize("shared_database_url", ["sqlite"], indirect=True)
def test_headers_without_end_are_seen_to_be_cut_off(site: Site) -> None:
    for attack in (connections.send_endless_headers, connections.send_one_endless_header):
        seen = attack(site, SECONDS)
        assert not seen.faults and seen.figures["cut off"] > 0


@pytest.mark.parametrize("shared_database_url", ["sqlite"], indirect=True)
def test_crowds_come_and_go(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HALF_SENT", 20)
    monkeypatch.setattr(connections, "FLOOD", 30)
    assert connections.send_halves(site, SECONDS).figures["opened"] == 20
    assert connections.flood(site, SECONDS).figures["opened"] == 30


@pytest.mark.parametrize("shared_database_url", ["sqlite"], indirect=True)
def test_readers_and_listeners_are_counted(site: Site) -> None:
    """As many streams as a tenant may have here are begun, the others refused."""
    most = site.settings.max_streams
    assert connections.read_no_ledger(site, SECONDS).figures["begun"] > 0
    listened = connections.listen_and_hang(site, 4 * SECONDS).figures
    assert listened == {"listening": most, "refused": connections.LISTENERS - most}


@pytest.mark.parametrize("shared_database_url", ["sqlite"], indirect=True)
def test_races_are_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    most = site.settings.max_queued_jobs
    raced = races.race_for_the_queue(site, SECONDS)
    assert raced == Seen({"at once": races.RACERS, "taken": most, "refused": races.RACERS - most}, [])
    assert races.guess_keys(site, SECONDS).figures["looked at"] <= 10
    asked = races.ask_for_the_year_1(site, SECONDS)
    assert asked.figures["status 422"] > 0 and not asked.faults


@pytest.mark.parametrize("shared_database_url", ["sqlite"], indirect=True)
def test_large_bodies_are_refused_and_what_was_taken_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = bodies.send_overrides(site, 2 * SECONDS)
    assert not overrides.faults and overrides.figures["status 413"] > 0
    taken = bodies._refused(Counter({201: 1, 413: 2}), {})
    assert taken.faults == ["1 were taken"]
    assert bodies._refused(Counter({500: 1, 503: 1}), {}).faults == ["1 x status 500", "none was refused"]


def test_the_bomb_is_small_and_has_all_its_values() -> None:
    bomb = bodies.parquet_bomb(40, 100_000)
    found = pq.ParquetFile(io.BytesIO(bomb)).metadata
    assert (found.num_rows, found.num_columns, len(bomb) < 200_000) == (100_000, 40, True)


@pytest.mark.slow
def test_a_whole_run_in_small(tmp_path: Path) -> None:
    arguments = ["--mode", "embedded", "--only", "year 1", "--seconds", "1", "--folder", str(tmp_path / "site")]
    program.main([*arguments, "--results", str(tmp_path)])
    page = (tmp_path / "HOSTILE.md").read_text()
    assert "| cursor of the year 1 |" in page and "its chains hold" in page
