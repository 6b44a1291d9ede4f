"""Lenders that answer well, late or twice, in a process of their own: `python -m benchmarks.hostile.lenders 40`.

It writes the ports of so many servers to stdout, and serves until stdin ends. The name of the model says how it answers
(tests/fakes/endpoints.py), `late` after three seconds.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from models.data.schema import Feature, FeatureKind, Schema
from tests.fakes.endpoints import Handler, HostileServer, serving

LATE_SECONDS = 3.0
WELL, LATE, TWICE, TWICE_WITH_ID = "mirror", "late", "twice", "twice_with_id"
FEATURE = "amount"
SCHEMA = Schema((Feature(FEATURE, FeatureKind.NUMERIC, 0.0, 10.0, 0.0001),), "decision", ("refused", "approved"))
"""Of one number: its tenth is the probability that the lender's model accepts, so each record knows its own answer."""


class LateHandler(Handler):
    """One behaviour more: a good answer, late."""

    def answer_late(self, rows: int, names: list[str]) -> None:
        time.sleep(LATE_SECONDS)
        self.answer_mirror(rows, names)


class Lender(HostileServer):
    """Takes a storm of new connections at once."""

    request_queue_size = 1024

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = LateHandler


@contextmanager
def lenders(count: int) -> Iterator[list[int]]:
    """The ports of so many lenders."""
    command = [sys.executable, "-m", "benchmarks.hostile.lenders", str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.communicate()


def registration(name: str, port: int, behaviour: str, seconds: float = 20.0) -> dict[str, object]:
    """The body of POST /ensembles for one lender."""
    endpoint = {"url": f"http://127.0.0.1:{port}", "model": behaviour, "members": ["model"], "seconds": seconds}
    budget = {"limit": 10_000_000, "period": "none"}
    return {"name": name, "version": "1", "schema": SCHEMA.to_json(), "endpoints": [endpoint], "budget": budget}


def main() -> int:
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(server=Lender())) for _ in range(int(sys.argv[1]))]
        sys.stdout.write(json.dumps([server.port for server in servers]) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
