"""Redis as production's way to wake a trainer: what is in it may be lost, doubled or nonsense, and nothing raises."""

import time
from collections.abc import Iterator
from threading import Event, Timer
from uuid import uuid4

import pytest
from redis import Redis

from app.train.queue import KEY, RedisQueue
from tests.servers.redis import RedisServer, own_redis
from worker.trainer import RedisWaker

LONG = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with own_redis() as server:
        yield server


@pytest.fixture
def redis(server: RedisServer) -> Iterator[Redis]:
    with Redis.from_url(server.url, decode_responses=True) as redis:
        yield redis
        redis.flushall()


def waited(waker: RedisWaker, seconds: float) -> float:
    began = time.monotonic()
    waker.wait(seconds)
    return time.monotonic() - began


def test_a_job_waits_in_the_list_once(server: RedisServer, redis: Redis) -> None:
    queue, first, second = RedisQueue(server.url), uuid4(), uuid4()
    assert queue.healthy()
    for job_id in (first, first, second, first):
        queue.wake(job_id)
    assert redis.lrange(KEY, 0, -1) == [str(second), str(first)]
    redis.flushall()
    queue.wake(first)
    assert redis.llen(KEY) == 1, "woken again after the flood"
    queue.close()


def test_each_wake_up_wakes_one_trainer(server: RedisServer, redis: Redis) -> None:
    queue, stop = RedisQueue(server.url), Event()
    first, second = RedisWaker(server.url, stop), RedisWaker(server.url, stop)
    later = Timer(0.2, queue.wake, [uuid4()])
    later.start()
    assert waited(first, LONG) < LONG / 2
    assert waited(second, 0.3) >= 0.3, "the other one sleeps on"
    later.join()


@pytest.mark.parametrize("content", ["not a job", "", "9" * 10_000])
def test_nonsense_in_the_list_wakes_and_no_more(server: RedisServer, redis: Redis, content: str) -> None:
    redis.rpush(KEY, content)
    assert waited(RedisWaker(server.url, Event()), LONG) < LONG / 2
    assert redis.llen(KEY) == 0


def test_a_key_of_another_kind_raises_nowhere(server: RedisServer, redis: Redis) -> None:
    """As another program, or another version of this one, may have left it."""
    redis.set(KEY, "a text")
    queue = RedisQueue(server.url)
    queue.wake(uuid4())
    assert waited(RedisWaker(server.url, Event()), 0.3) >= 0.3, "then time alone wakes the trainer"


def test_who_is_told_to_end_waits_no_longer(server: RedisServer) -> None:
    stop = Event()
    later = Timer(0.2, stop.set)
    later.start()
    assert waited(RedisWaker(server.url, stop), LONG) < LONG / 2
    later.join()


def test_while_redis_is_away_nothing_raises(server: RedisServer) -> None:
    queue, waker = RedisQueue(server.url), RedisWaker(server.url, Event())
    server.stop()
    queue.wake(uuid4())
    assert not queue.healthy()
    assert waited(waker, 0.3) >= 0.3
    server.start()
    assert queue.healthy(), "it comes back by itself"
    queue.wake(uuid4())
    assert waited(waker, LONG) < LONG / 2
    queue.close()
