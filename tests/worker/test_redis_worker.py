"""A worker that is rung through Redis, as `recourse worker --only train` starts it; Redis forgets, then goes away."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr
from redis import Redis

from app.db.engine import Database
from app.settings import environment_of
from app.train.queue import RedisQueue
from tests.app.conftest import Customer
from tests.patience import BOUND, wait_until
from tests.servers.redis import own_redis
from tests.servers.worker import Site, changed, make_site


@contextmanager
def redis_worker(site: Site) -> Iterator["subprocess.Popen[bytes]"]:
    """The worker's process; it must end by itself when it is told to."""
    command = [sys.executable, "-c", "from app.cli import main; main()", "worker", "--only", "train"]
    process = subprocess.Popen(command, env=os.environ | environment_of(site.settings))
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=BOUND) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_jobs_end_whatever_becomes_of_redis(
    tmp_path: Path, database: Database, database_url: str, customer: Customer
) -> None:
    with own_redis() as server:
        site = make_site(tmp_path, database, database_url, customer, redis_url=SecretStr(server.url))
        refused = changed(site.request, label="nobody")
        queue = RedisQueue(server.url)

        forgotten = site.submit(refused)
        queue.wake(forgotten)
        with Redis.from_url(server.url) as redis:
            redis.flushall()
        with redis_worker(site):
            wait_until(lambda: site.job(forgotten).state == "failed")
            assert "There is no label column 'nobody'" in site.job(forgotten).error

            server.stop()
            alone = site.submit(refused)
            wait_until(lambda: site.job(alone).state == "failed")

            server.start()
            rung = site.submit(refused)
            queue.wake(rung)
            wait_until(lambda: site.job(rung).state == "failed")
        queue.close()
