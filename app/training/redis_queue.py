"""Production's queue: RQ on Redis rings the bell. The job's row is the truth: a ring may be lost, or come twice."""

from uuid import UUID

import structlog
from redis import Redis
from redis.exceptions import RedisError
from rq import Queue
from rq.serializers import JSONSerializer

QUEUE = "recourse-train"
ANSWER = "worker.rq_worker.answer_ring"
"""What a worker runs for a ring; by name, because app does not import worker."""
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0
FAILURE_SECONDS = 300
"""How long RQ remembers a ring that failed; nobody needs it, but an operator may look."""

log = structlog.get_logger()


def connect(url: str) -> Redis:
    """For a worker, which waits for rings as long as it takes."""
    return Redis.from_url(url, socket_connect_timeout=CONNECT_SECONDS)


class RedisQueue:
    """Rings workers, wherever they are."""

    def __init__(self, url: str) -> None:
        self._redis = Redis.from_url(
            url, socket_connect_timeout=CONNECT_SECONDS, socket_timeout=ANSWER_SECONDS, health_check_interval=30
        )
        self._queue = Queue(QUEUE, connection=self._redis, serializer=JSONSerializer)

    def ring(self, job_id: UUID) -> None:
        """Unless a ring for the job waits already. While Redis is away nothing happens: the reconciler rings again."""
        name = str(job_id)
        try:
            if self._queue.get_job_position(name) is None:
                self._queue.enqueue_call(
                    ANSWER, args=[name], job_id=name, timeout=-1, result_ttl=0, failure_ttl=FAILURE_SECONDS
                )
        except RedisError as error:
            log.warning("worker not rung", job=name, reason=str(error))

    def healthy(self) -> bool:
        """Whether Redis answers."""
        try:
            return bool(self._redis.ping())
        except RedisError:
            return False

    def close(self) -> None:
        self._redis.close()
