"""The bell of production: it may be rung twice, lost, or out of order, and never raises."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from app.train.queue import ANSWER, QUEUE, RedisQueue
from tests.servers.redis import RedisServer, own_redis


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with own_redis() as server:
        yield server


def test_a_ring_waits_once_and_is_json(server: RedisServer) -> None:
    queue, job_id = RedisQueue(server.url), uuid4()
    assert queue.healthy()
    for _ in range(3):
        queue.ring(job_id)
    with Redis.from_url(server.url) as redis:
        rings = Queue(QUEUE, connection=redis, serializer=JSONSerializer).jobs
        assert [(ring.func_name, ring.args) for ring in rings] == [(ANSWER, [str(job_id)])]
        assert b"pickle" not in redis.hget(f"rq:job:{job_id}", "data")
        redis.flushdb()
    queue.ring(job_id)
    with Redis.from_url(server.url) as redis:
        assert len(Queue(QUEUE, connection=redis, serializer=JSONSerializer)) == 1, "rung again after the flood"
    queue.close()


def test_while_redis_is_away_nothing_raises(server: RedisServer) -> None:
    queue = RedisQueue(server.url)
    server.stop()
    queue.ring(uuid4())
    assert not queue.healthy()
    server.start()
    assert queue.healthy(), "it comes back by itself"
    queue.ring(uuid4())
    queue.close()
