"""The service's benchmark: how its ratios are taken, and what its clients count."""

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.settings import Settings
from benchmarks.service.engine import Engine
from benchmarks.service.load import Load, measure
from benchmarks.service.report import Point, Report, Turn, soak_of, write, write_soaks
from benchmarks.service.site import publish_model
from tests.fakes.lending import make_lending
from tests.patience import BOUND
from tests.published import save_two
from tests.servers.running import service_environment

POINT = Point(
    clients=1,
    records=1,
    requests=100,
    records_a_second=40.0,
    p50_ms=24.0,
    p95_ms=30.0,
    p99_ms=40.0,
    failures={},
    batch=1.0,
    engine=0.8,
    engine_ms_a_record=20.0,
    cpu=1.1,
    cpu_ms_a_record=24.0,
)
REPORT = Report(
    mode="embedded",
    database="SQLite",
    engine=Engine(records_a_second=400.0, cpu_ms_a_record=2.5, p50_ms=20.0),
    points=(
        POINT,
        replace(POINT, clients=64, records_a_second=200.0),
        replace(POINT, clients=8, records=32, records_a_second=320.0, engine=0.99),
        replace(POINT, clients=64, records=32, records_a_second=300.0),
    ),
    turns=(Turn(20.0, 24.0), Turn(40.0, 49.0), Turn(21.0, 22.0)),
    load_average=0.5,
)


def test_ratios_are_those_of_the_best_load() -> None:
    assert (REPORT.ratio(1), REPORT.ratio(32)) == (0.5, 0.8)
    assert REPORT.over_ms == pytest.approx(24.0 - 21.0)
    assert REPORT.over_hurried_ms == pytest.approx(24.0 - 20.0)
    assert REPORT.bound(32).startswith("the search")
    assert REPORT.bound(1).startswith("what is around the search")


def test_the_report_is_written(tmp_path: Path) -> None:
    write([REPORT], tmp_path)
    (found,) = json.loads((tmp_path / "service.json").read_text())
    assert found["summary"]["ratio_32"]["measured"] == 0.8
    assert found["turns"]["count"] == 3
    assert (tmp_path / "service.png").stat().st_size > 1000


def test_growth_is_from_a_tenth_to_the_end(tmp_path: Path) -> None:
    seen = [(records, 300.0 if records < 8_000 else 400.0 + records / 1000) for records in range(0, 100_000, 100)]
    soak = soak_of("embedded", seen, 100_000, 60.0, {})
    assert list(soak.resident_mb)[:: len(soak.resident_mb) - 1] == ["10000", "100000"]
    assert soak.growth == pytest.approx(90 / 410, abs=0.01)
    write_soaks([soak], tmp_path)
    write_soaks([replace(soak, mode="workers"), replace(soak, explained=7)], tmp_path)
    found = json.loads((tmp_path / "service_soak.json").read_text())
    assert [(entry["mode"], entry["explained"]) for entry in found] == [("workers", 100_000), ("embedded", 7)]


def test_clients_count_answers_and_failures() -> None:
    async def scenario() -> None:
        asked: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while head := await reader.readuntil(b"\r\n\r\n"):
                    size = int(head.lower().partition(b"content-length:")[2].split()[0])
                    asked.append(await reader.readexactly(size))
                    status = b"503 Busy" if len(asked) == 3 else b"200 OK"
                    writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\n{}")
            except asyncio.IncompleteReadError:
                writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        found = await measure(Load(url, "rk_x", ["[1]", "[2]"], clients=2, warm_up=0, seconds=0, requests=10))
        assert len(asked) == 10
        assert sorted(set(asked)) == [b"[1]", b"[2]"]
        assert (len(found.latencies), found.failures) == (9, {"503": 1})
        server.close()
        await server.wait_closed()

    asyncio.run(scenario())


def test_a_warm_request_passes_few_files(tmp_path: Path) -> None:
    """What a newcomer has to open to follow one request. A file more is a file more to read: is it worth it?"""
    key = publish_model(Settings(var_dir=tmp_path / "var"), save_two(make_lending(), tmp_path / "saved")[0].folder)
    command = [sys.executable, "-m", "benchmarks.service.walk", str(tmp_path / "var"), key]
    ended = subprocess.run(command, env=service_environment({}), capture_output=True, text=True, timeout=BOUND)
    found = {name: int(files) for name, files in re.findall(r"^(\w+): (\d+) files", ended.stdout, re.MULTILINE)}
    assert 15 < found["app"] <= 21, ended.stdout + ended.stderr
    assert 15 < found["models"] <= 25
    assert found["worker"] == found["client"] == 0
