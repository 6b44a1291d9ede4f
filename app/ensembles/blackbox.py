"""The two kinds of black box that app/ensembles/metered.py asks: an ensemble in this process, and remote endpoints.

Only app/ensembles/meter.py may import this file (a contract in pyproject.toml), so that nothing is asked unmetered.
Remote members speak the Open Inference Protocol v2: records become tensors here, endpoint.py makes the calls. They are
asked at the same time, on the event loop of the process's pool; an endpoint that keeps failing rests for a while behind
its circuit breaker.
"""

import asyncio
import json
import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from app.concurrency import Deadline
from app.ensembles.endpoint import (
    Call,
    Document,
    Endpoint,
    EndpointFailure,
    EndpointPool,
    Layout,
)
from app.ensembles.metered import BoxAnswer, MissingVote, Prepared
from models.arrays import Records
from models.data.schema import Feature, FeatureKind, Schema
from models.ensemble.protocol import Ensemble
from models.errors import ConfigError, EnsembleError


class LocalBlackBox:
    """Any `Ensemble`: it is asked as a whole, whichever members are wanted, and cannot be stopped while it thinks."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.member_names = ensemble.member_names
        self.classes = ensemble.classes
        self._ensemble = ensemble

    def prepare(self, records: Records, members: tuple[int, ...], deadline: Deadline) -> Prepared:
        """Records (n, F) for some of the members: nothing can be in the way here."""
        return Prepared(members, (), partial(self._ask, records, members))

    def _ask(self, records: Records, members: tuple[int, ...]) -> BoxAnswer:
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
    """Members behind HTTP endpoints, asked at the same time. Nothing is open between calls but the pool's connections.

    holder: for whom the pool's places are held; see `EndpointPool.send`.
    """

    def __init__(
        self,
        schema: Schema,
        endpoints: tuple[Endpoint, ...],
        pool: EndpointPool,
        holder: Hashable = None,
        breakers: BreakerPolicy | None = None,
    ) -> None:
        self.member_names = tuple(member for endpoint in endpoints for member in endpoint.members)
        self.classes = schema.classes
        if len(set(self.member_names)) != len(self.member_names):
            raise ConfigError(f"two endpoints answer for one member: {', '.join(sorted(self.member_names))}")
        for endpoint in endpoints:
            pool.policy.origin(endpoint.url)
        chosen = breakers or BreakerPolicy()
        self._schema = schema
        self._pool = pool
        self._holder = holder
        self._doors = tuple((endpoint, CircuitBreaker(chosen.threshold, chosen.cooldown)) for endpoint in endpoints)

    def prepare(self, records: Records, members: tuple[int, ...], deadline: Deadline) -> Prepared:
        """Records (n, F) for some of the members: their addresses are looked up, and nothing is sent yet."""
        wanted = frozenset(self.member_names[m] for m in members)
        found = self._pool.run(partial(self._prepare, records, wanted, deadline))
        missing = tuple(vote for one in found if not isinstance(one, _Share) for vote in one)
        shares = [one for one in found if isinstance(one, _Share)]
        reached = tuple(self.member_names.index(name) for share in shares for name in share.outputs)
        return Prepared(reached, missing, lambda: self._pool.run(partial(self._ask, shares, len(records), deadline)))

    async def _prepare(
        self, records: Records, wanted: frozenset[str], deadline: Deadline
    ) -> "list[_Share | tuple[MissingVote, ...]]":
        doors = [door for door in self._doors if wanted.intersection(door[0].members)]
        return await asyncio.gather(*(self._prepare_one(*door, records, wanted, deadline) for door in doors))

    async def _prepare_one(
        self,
        endpoint: Endpoint,
        breaker: "CircuitBreaker",
        records: Records,
        wanted: frozenset[str],
        deadline: Deadline,
    ) -> "_Share | tuple[MissingVote, ...]":
        """One endpoint's share of the members, or why it cannot be asked."""
        named = zip(endpoint.members, endpoint.outputs, strict=True)
        outputs = {member: output for member, output in named if member in wanted}
        if not breaker.would_allow:
            return tuple(MissingVote(member, "failed before and rests now", True) for member in outputs)
        id = uuid4().hex
        body = encode_request(self._schema, records, endpoint.layout, list(outputs.values()), id)
        try:
            return _Share(await self._pool.prepare(endpoint, id, body, deadline.remaining), outputs, breaker)
        except EndpointFailure as failure:
            if failure.passing:
                breaker.failed()
            return tuple(MissingVote(member, failure.reason, failure.passing) for member in outputs)

    async def _ask(self, shares: "list[_Share]", rows: int, deadline: Deadline) -> BoxAnswer:
        """All endpoints at once; the answers stand one below the other."""
        answers = await asyncio.gather(*(self._ask_one(share, rows, deadline) for share in shares))
        missing = tuple(vote for answer in answers for vote in answer.missing)
        return BoxAnswer(np.concatenate([answer.probabilities for answer in answers]), missing)

    async def _ask_one(self, share: "_Share", rows: int, deadline: Deadline) -> BoxAnswer:
        """Send one call, and tell the endpoint's breaker how it went; it is paid for, so that cannot stop it now."""
        share.breaker.allow()
        sound = False
        try:
            said = await self._pool.send(share.call, self._holder, deadline.remaining)
            answer = self._read(said, rows, share.outputs)
            sound = not answer.missing
        except EndpointFailure as failure:
            silence = np.full((len(share.outputs), rows, len(self.classes)), np.nan)
            votes = tuple(MissingVote(name, failure.reason, failure.passing) for name in share.outputs)
            answer = BoxAnswer(silence, votes)
        finally:
            if sound:
                share.breaker.succeeded()
            else:
                share.breaker.failed()
        return answer

    def _read(self, said: Document, rows: int, outputs: dict[str, str]) -> BoxAnswer:
        """The answer in a response's JSON; outputs: member -> the name of its output."""
        shape = (rows, len(self.classes))
        tensors = decode_answer(said, *shape)
        probabilities = np.stack([tensors.get(output, np.full(shape, np.nan)) for output in outputs.values()])
        missing = (
            MissingVote(member, f"sent no float output {output!r} of shape {list(shape)}", passing=False)
            for member, output in outputs.items()
            if output not in tensors
        )
        return BoxAnswer(probabilities, tuple(missing))


@dataclass(frozen=True, eq=False)
class _Share:
    """The part of a question that goes to one endpoint; outputs: member -> the name of its output."""

    call: Call
    outputs: dict[str, str]
    breaker: "CircuitBreaker"


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


FLOATS = frozenset({"FP16", "FP32", "FP64"})
DATATYPES = {FeatureKind.NUMERIC: "FP64", FeatureKind.INTEGER: "INT64", FeatureKind.CATEGORICAL: "BYTES"}


def encode_request(schema: Schema, records: Records, layout: Layout, outputs: Sequence[str], id: str) -> bytes:
    """The body of an infer request for records (n, F): only the outputs named; a missing value is null."""
    if np.isinf(records).any():
        raise EnsembleError("a record holds an infinite number, which no request can carry: clip it first")
    inputs: list[dict[str, object]]
    if layout is Layout.MATRIX:
        cells = [None if math.isnan(value) else value for value in records.ravel().tolist()]
        inputs = [{"name": "records", "shape": list(records.shape), "datatype": "FP64", "data": cells}]
        parameters = {}
    else:
        inputs = [_column(feature, records[:, column]) for column, feature in enumerate(schema.features)]
        parameters = {"content_type": "pd"}
    request = {"id": id, "parameters": parameters, "inputs": inputs, "outputs": [{"name": name} for name in outputs]}
    return json.dumps(request, allow_nan=False).encode()


def _column(feature: Feature, values: NDArray[np.float64]) -> dict[str, object]:
    """One feature, values (n,), as a tensor of raw values."""
    # Servers read null as NaN among floats, and fail on it among integers.
    as_float = feature.kind is FeatureKind.INTEGER and (feature.nullable or bool(np.isnan(values).any()))
    tensor: dict[str, object] = {
        "name": feature.name,
        "shape": [len(values), 1],
        "datatype": "FP64" if as_float else DATATYPES[feature.kind],
        "data": [None if math.isnan(value) else _raw(feature, value) for value in values.tolist()],
    }
    if feature.kind is FeatureKind.CATEGORICAL:
        tensor["parameters"] = {"content_type": "str"}
    return tensor


def _raw(feature: Feature, value: float) -> str | int | float:
    match feature.kind:
        case FeatureKind.CATEGORICAL:
            return feature.categories[int(value)]
        case FeatureKind.INTEGER:
            return int(value)
        case FeatureKind.NUMERIC:
            return value


def decode_answer(answer: Document, rows: int, classes: int) -> dict[str, NDArray[np.float64]]:
    """output name -> probabilities (rows, classes), for the outputs that have that shape."""
    outputs = answer.get("outputs")
    if not isinstance(outputs, list):
        raise EndpointFailure("answered without a list of outputs", passing=False)
    tensors = ((output.get("name"), _tensor(output, rows, classes)) for output in outputs if isinstance(output, dict))
    return {name: tensor for name, tensor in tensors if isinstance(name, str) and tensor is not None}


def _tensor(output: dict[str, object], rows: int, classes: int) -> NDArray[np.float64] | None:
    """The output's data, flat or nested, or None if it is not a float tensor of the shape asked for."""
    datatype = output.get("datatype")
    if output.get("shape") != [rows, classes] or not isinstance(datatype, str) or datatype not in FLOATS:
        return None
    try:
        data = np.asarray(output.get("data"), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return data.reshape(rows, classes) if data.size == rows * classes else None
