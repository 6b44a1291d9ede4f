"""Attacks by timing: kills between two commits, processes that are stopped, requests at the same moment, guesses."""

import os
import signal
import time
from base64 import urlsafe_b64encode
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread
from uuid import UUID, uuid4

import httpx
from sqlalchemy import create_engine, text

from app.auth.principals import MOST_WRONG
from benchmarks.hostile.connections import cancel_all
from benchmarks.hostile.site import FAST, SILENCE_SECONDS, Site, order, sent, wait_ready
from benchmarks.hostile.verdict import Seen
from benchmarks.hostile.watcher import TRAINING

KILLS, RACERS, GUESSES = 3, 60, 300
REVIVAL_SECONDS = 90.0
YEAR_1 = urlsafe_b64encode(f"0001-01-01T00:00:00+05:00 {UUID(int=1).hex}".encode()).decode().rstrip("=")
"""A moment that is none in UTC."""


def kill_between_commits(site: Site, seconds: float) -> Seen:
    """SIGKILL as soon as a job's row is there; the same request again must find that job, not make another."""
    tenant, faults, same = site.hostile[0], list[str](), 0
    for kill in range(KILLS):
        model, headers = f"killed-{kill}-{uuid4().hex[:8]}", {"Idempotency-Key": uuid4().hex}
        body = order(tenant, model, 0.02, 0)
        asking = Thread(target=_ask_in_vain, args=(site, body, headers))
        asking.start()
        job_id = _wait_for_row(site, model)
        site.processes.kill("api")
        asking.join()
        site.processes.start_again("api")
        wait_ready(site.url, site.processes)
        with site.client(tenant) as http:
            end = time.monotonic() + REVIVAL_SECONDS
            while (again := http.post("/train", json=body, headers=headers)).status_code == httpx.codes.CONFLICT:
                if time.monotonic() > end:
                    break
                time.sleep(0.2)
            jobs = sent(http.get("/jobs", params={"model": model}))["items"]
            same += again.status_code == httpx.codes.ACCEPTED and again.json()["id"] == str(job_id) and len(jobs) == 1
            if len(jobs) != 1:
                faults.append(f"{len(jobs)} jobs for one idempotency key")
            cancel_all(http)
    if same != KILLS:
        faults.append(f"{KILLS - same} of {KILLS} repeats were not answered with their job")
    return Seen({"kills": KILLS, "answered with their job": same}, faults)


def _ask_in_vain(site: Site, body: dict[str, object], headers: dict[str, str]) -> None:
    with site.client(site.hostile[0]) as http, suppress(httpx.HTTPError):
        http.post("/train", json=body, headers=headers)


def _wait_for_row(site: Site, model: str) -> UUID:
    """The job's id as soon as anybody else can see it."""
    url = site.settings.database.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            end = time.monotonic() + 30
            while time.monotonic() < end:
                row = connection.execute(
                    text("SELECT id FROM jobs WHERE model_name = :model"), {"model": model}
                ).first()
                if row is not None:
                    return row[0] if isinstance(row[0], UUID) else UUID(str(row[0]))
    finally:
        engine.dispose()
    raise SystemExit("the job's row never came")


def stop_a_training(site: Site, seconds: float) -> Seen:
    """SIGSTOP of a training's process: it must be ended, and its job go on in another."""
    tenant = site.hostile[0]
    with site.client(tenant) as http:
        job = sent(http.post("/train", json=order(tenant, "stopped", 5.0, 0)), 202)
        first = _wait_for_training(site, set())
        # It gives signs of life by now, and has loaded its libraries.
        end = time.monotonic() + REVIVAL_SECONDS
        while not sent(http.get(f"/jobs/{job['id']}"))["progress"] and time.monotonic() < end:
            time.sleep(0.1)
        os.kill(first, signal.SIGSTOP)
        stopped = time.monotonic()
        second = _wait_for_training(site, {first})
        taken, gone = time.monotonic() - stopped, not Path(f"/proc/{first}").exists()
        state = sent(http.get(f"/jobs/{job['id']}"))["state"]
        cancel_all(http)
    faults = [] if second and gone and state == "running" else [f"the job is {state}, its first process is not gone"]
    return Seen({"silence allowed s": SILENCE_SECONDS, "another process after s": round(taken, 1)}, faults)


def _wait_for_training(site: Site, known: set[int]) -> int:
    """The process of a training that is not known yet; 0: none came."""
    end = time.monotonic() + REVIVAL_SECONDS
    while time.monotonic() < end:
        for pid in site.processes.tree():
            with suppress(OSError):
                if pid not in known and TRAINING in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        time.sleep(0.05)
    return 0


def race_for_the_queue(site: Site, seconds: float) -> Seen:
    """Sixty trainings at the same moment, of which twenty may wait."""
    tenant = site.hostile[0]
    with site.client(tenant) as http:
        body = order(tenant, "raced", 0.02, 0)
        with ThreadPoolExecutor(RACERS) as threads:
            answers = list(threads.map(lambda _: http.post("/train", json=body).status_code, range(RACERS)))
        cancel_all(http)
    most = site.settings.max_queued_jobs
    taken, late = answers.count(202), answers.count(429) + answers.count(503)
    faults = [] if 0 < taken <= most else [f"{taken} of {most} were taken"]
    if taken + late != RACERS:
        faults.append(f"{Counter(answers)} was answered")
    return Seen({"at once": RACERS, "taken": taken, "refused": late}, faults)


def guess_keys(site: Site, seconds: float) -> Seen:
    """Guesses at the sign-in from one address, as fast as they are answered."""
    end, looked_at = time.monotonic() + seconds, Counter[int]()

    def guess(number: int) -> None:
        if time.monotonic() < end:
            answer = httpx.post(f"{site.url}/sign-in", data={"key": f"rk_{number}"}, timeout=20)
            looked_at[answer.status_code] += 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(guess, range(GUESSES)))
    refused = looked_at.pop(429, 0)
    # A minute may turn while they come.
    faults = [f"{looked_at.total()} guesses were looked at"] if looked_at.total() > 2 * MOST_WRONG else []
    return Seen({"looked at": looked_at.total(), "turned away": refused}, faults)


def ask_for_the_year_1(site: Site, seconds: float) -> Seen:
    """A cursor that is no moment in UTC, at every list."""
    lists = ("/jobs", "/models", "/datasets", "/ensembles", "/explanations", "/keys", "/budgets")
    paths = (*lists, f"/budgets/{FAST}/ledger")
    end, statuses = time.monotonic() + seconds, Counter[int]()
    with site.client(site.hostile[0]) as http:
        while time.monotonic() < end:
            for path in paths:
                statuses[http.get(path, params={"cursor": YEAR_1}).status_code] += 1
    faults = [f"{count} x status {status}" for status, count in statuses.items() if status != 422]
    return Seen({"status 422": statuses[422]}, faults)
