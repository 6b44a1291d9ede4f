"""Remote models over the Open Inference Protocol v2, as a black box: one endpoint a member, or one for several."""

import asyncio
import ssl
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx
import numpy as np

from app.blackbox.address import AddressPolicy
from app.blackbox.breaker import CircuitBreaker
from app.blackbox.deadline import Deadline
from app.blackbox.endpoint import Endpoint, EndpointClient, EndpointFailure, Resolver, resolve
from app.blackbox.loop import LoopThread
from app.blackbox.protocol import BoxAnswer, MissingVote
from app.blackbox.wire import decode_response, encode_request
from models.errors import ConfigError
from models.matrix import Records
from models.schema import Schema


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
        self._loop = LoopThread("remote black box")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        for client in self._clients:
            self._loop.run(client.close())
        self._loop.close()

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
        return self._loop.run(self._ask(records, tuple(self.member_names[m] for m in members), deadline))

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
