"""The two kinds of black box that app/ensembles/metered.py asks: an ensemble in this process, and remote endpoints.

Only app/ensembles/meter.py may import this file (a contract in pyproject.toml), so that nothing is asked unmetered.
Remote members speak the Open Inference Protocol v2 (app/ensembles/endpoint.py). They are asked at the same time, on an
event loop in a thread of its own; an endpoint that keeps failing rests for a while behind its circuit breaker.
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Self

import httpx
import numpy as np
from anyio.from_thread import start_blocking_portal

from app.concurrency import Deadline
from app.ensembles.address import AddressPolicy
from app.ensembles.endpoint import (
    Endpoint,
    EndpointClient,
    EndpointFailure,
    Resolver,
    decode_response,
    encode_request,
    resolve,
)
from app.ensembles.metered import BoxAnswer, MissingVote
from models.arrays import Records
from models.data.schema import Schema
from models.ensemble.protocol import Ensemble
from models.errors import ConfigError, EnsembleError


class LocalBlackBox:
    """Any `Ensemble`: it is asked as a whole, whichever members are wanted, and cannot be stopped while it thinks."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.member_names = ensemble.member_names
        self.classes = ensemble.classes
        self._ensemble = ensemble

    def close(self) -> None:
        """Nothing is open."""

    def reachable(self) -> frozenset[int]:
        return frozenset(range(len(self.member_names)))

    def ask(self, records: Records, members: tuple[int, ...], deadline: Deadline) -> BoxAnswer:
        """records (n, F) -> probabilities (len(members), n, K)"""
        try:
            answered = np.asarray(self._ensemble.predict_proba(records), dtype=np.float64)
        except EnsembleError as error:
            nothing = np.full((len(members), len(records), len(self.classes)), np.nan)
            return BoxAnswer(nothing, tuple(MissingVote(self.member_names[m], str(error), True) for m in members))
        expected = (len(self.member_names), len(records), len(self.classes))
        if answered.shape != expected:
            raise EnsembleError(f"the ensemble answered with shape {answered.shape}, its protocol says {expected}")
        chosen = answered[list(members)]
        silent = np.isnan(chosen).any(axis=(1, 2))
        missing = (MissingVote(self.member_names[m], "did not answer", True) for m in np.array(members)[silent])
        return BoxAnswer(chosen, tuple(missing))


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """After how many failures in a row an endpoint rests, and for how many seconds."""

    threshold: int = 5
    cooldown: float = 30.0


class RemoteBlackBox:
    """Members behind HTTP endpoints, asked at the same time. Use it in a `with`, or close it."""

    def __init__(
        self,
        schema: Schema,
        endpoints: tuple[Endpoint, ...],
        policy: AddressPolicy,
        breakers: BreakerPolicy | None = None,
        resolver: Resolver = resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.member_names = tuple(member for endpoint in endpoints for member in endpoint.members)
        self.classes = schema.classes
        if len(set(self.member_names)) != len(self.member_names):
            raise ConfigError(f"two endpoints answer for one member: {', '.join(sorted(self.member_names))}")
        chosen = breakers or BreakerPolicy()
        context = tls or httpx.create_ssl_context()
        self._schema = schema
        self._endpoints = endpoints
        self._clients = tuple(EndpointClient(endpoint, policy, resolver, context) for endpoint in endpoints)
        self._breakers = tuple(CircuitBreaker(chosen.threshold, chosen.cooldown) for _ in endpoints)
        self._open = ExitStack()
        self._portal = self._open.enter_context(start_blocking_portal(name="remote black box"))
        # Closed in the other order: the connections, then whatever still waits for an answer, then the thread.
        self._open.callback(self._portal.call, self._portal.stop, True)
        for client in self._clients:
            self._open.callback(self._portal.call, client.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._open.close()

    def reachable(self) -> frozenset[int]:
        """The members whose endpoint does not rest."""
        open_names = {
            member
            for endpoint, breaker in zip(self._endpoints, self._breakers, strict=True)
            if breaker.would_allow
            for member in endpoint.members
        }
        return frozenset(m for m, name in enumerate(self.member_names) if name in open_names)

    def ask(self, records: Records, members: tuple[int, ...], deadline: Deadline) -> BoxAnswer:
        """records (n, F) -> probabilities (len(members), n, K)"""
        return self._portal.call(self._ask, records, tuple(self.member_names[m] for m in members), deadline)

    async def _ask(self, records: Records, wanted: tuple[str, ...], deadline: Deadline) -> BoxAnswer:
        """Each endpoint that has a wanted member is asked for its own, all at once."""
        shares = [tuple(name for name in endpoint.members if name in wanted) for endpoint in self._endpoints]
        concerned = [(number, share) for number, share in enumerate(shares) if share]
        answers = await asyncio.gather(
            *(self._ask_one(number, records, share, deadline) for number, share in concerned)
        )
        probabilities = np.full((len(wanted), len(records), len(self.classes)), np.nan)
        for (_, share), answer in zip(concerned, answers, strict=True):
            probabilities[[wanted.index(name) for name in share]] = answer.probabilities
        return BoxAnswer(probabilities, tuple(vote for answer in answers for vote in answer.missing))

    async def _ask_one(self, number: int, records: Records, wanted: tuple[str, ...], deadline: Deadline) -> BoxAnswer:
        """Ask one endpoint for its wanted members, and tell its breaker how it went."""
        endpoint, breaker = self._endpoints[number], self._breakers[number]
        outputs = dict(zip(endpoint.members, endpoint.outputs, strict=True))
        names = [outputs[name] for name in wanted]
        body = encode_request(self._schema, records, endpoint.layout, names)
        if not breaker.allow():
            return self._nothing(records, wanted, "failed before and rests now", passing=True)
        sound = False
        try:
            response = await self._clients[number].infer(body, deadline.remaining)
            answer = self._read(response, len(records), dict(zip(wanted, names, strict=True)))
            sound = not answer.missing
        except EndpointFailure as failure:
            answer = self._nothing(records, wanted, failure.reason, failure.passing)
        finally:
            if sound:
                breaker.succeeded()
            else:
                breaker.failed()
        return answer

    def _read(self, response: bytes, rows: int, outputs: dict[str, str]) -> BoxAnswer:
        """The answer in a response's body; outputs: member -> the name of its output."""
        shape = (rows, len(self.classes))
        tensors = decode_response(response, *shape)
        probabilities = np.stack([tensors.get(output, np.full(shape, np.nan)) for output in outputs.values()])
        missing = (
            MissingVote(member, f"sent no float output {output!r} of shape {list(shape)}", passing=False)
            for member, output in outputs.items()
            if output not in tensors
        )
        return BoxAnswer(probabilities, tuple(missing))

    def _nothing(self, records: Records, wanted: tuple[str, ...], reason: str, passing: bool) -> BoxAnswer:
        silence = np.full((len(wanted), len(records), len(self.classes)), np.nan)
        return BoxAnswer(silence, tuple(MissingVote(name, reason, passing) for name in wanted))


class CircuitBreaker:
    """Opens after `threshold` failures in a row; after `cooldown` seconds one try is let through and may close it."""

    def __init__(self, threshold: int = 5, cooldown: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._threshold = threshold
        self._cooldown = cooldown
        self._clock = clock
        self._lock = Lock()
        self._failures = 0
        self._opened_at: float | None = None
        self._trying = False

    @property
    def would_allow(self) -> bool:
        """Whether `allow` would say yes now."""
        with self._lock:
            return self._allows()

    def allow(self) -> bool:
        """Whether to ask; each yes must be followed by `succeeded` or `failed`."""
        with self._lock:
            allowed = self._allows()
            self._trying = self._trying or (allowed and self._opened_at is not None)
            return allowed

    def succeeded(self) -> None:
        with self._lock:
            self._failures = 0
            self._opened_at = None
            self._trying = False

    def failed(self) -> None:
        with self._lock:
            self._failures += 1
            self._trying = False
            if self._failures >= self._threshold:
                self._opened_at = self._clock()

    def _allows(self) -> bool:
        if self._opened_at is None:
            return True
        return not self._trying and self._clock() - self._opened_at >= self._cooldown
