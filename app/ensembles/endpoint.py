"""One call to one endpoint of the Open Inference Protocol v2: records as a request, a response as probabilities.

The address is pinned, redirects are not followed, time and size have caps. Which addresses may be called is decided in
address.py.
"""

import asyncio
import json
import math
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from socket import SOCK_STREAM
from typing import TypeAlias
from urllib.parse import quote

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from app.ensembles.address import AddressPolicy
from app.errors import EndpointError
from models.arrays import Records
from models.data.schema import Feature, FeatureKind, Schema
from models.errors import ConfigError, EnsembleError

Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]


class Layout(StrEnum):
    """How records travel: one tensor a feature with raw values, or the record matrix as one tensor."""

    COLUMNS = "columns"
    MATRIX = "matrix"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An Open Inference Protocol v2 model that answers for one member or for several.

    outputs: the output tensor of each member, (n, K) each; by default `predict_proba`, or the members' names if there
    are several. credential: sent as a bearer token; never in a log, an error, or the text of this object.
    """

    url: str
    model: str
    members: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    layout: Layout = Layout.COLUMNS
    credential: SecretStr | None = None
    seconds: float = 10.0
    max_bytes: int = 16 * 2**20

    def __post_init__(self) -> None:
        if not self.members:
            raise ConfigError(f"the endpoint of model {self.model!r} answers for no member: name one or more")
        if not self.outputs:
            default = ("predict_proba",) if len(self.members) == 1 else self.members
            object.__setattr__(self, "outputs", default)
        if len(self.outputs) != len(self.members):
            raise ConfigError(
                f"the endpoint of {self.model!r} has {len(self.members)} members, but {len(self.outputs)} outputs are "
                "named: name one a member"
            )


class EndpointFailure(Exception):
    """A call that brought no answer; `passing` says that another try may help. The message is safe to show."""

    def __init__(self, reason: str, passing: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.passing = passing


async def resolve(host: str, port: int) -> list[str]:
    """Every address of the host, as the system's resolver gives them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class EndpointClient:
    """Calls one endpoint. Its own connections: a pinned address must never be reused under another host's name."""

    def __init__(self, endpoint: Endpoint, policy: AddressPolicy, resolver: Resolver, tls: ssl.SSLContext) -> None:
        self._endpoint = endpoint
        self._policy = policy
        self._resolve = resolver
        self._origin = policy.origin(endpoint.url)
        self._client = httpx.AsyncClient(verify=tls, trust_env=False, follow_redirects=False)

    async def infer(self, body: bytes, seconds: float) -> bytes:
        """The response's body, or EndpointFailure; `seconds` and the endpoint's own limit hold for the whole call."""
        try:
            async with asyncio.timeout(min(seconds, self._endpoint.seconds)):
                return await self._post(body)
        except TimeoutError as error:
            raise EndpointFailure("took too long", passing=True) from error
        except EndpointError as error:
            raise EndpointFailure(str(error), passing=False) from error
        except (OSError, UnicodeError, httpx.HTTPError) as error:
            raise EndpointFailure(f"could not be reached ({type(error).__name__})", passing=True) from error

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(self, body: bytes) -> bytes:
        origin = self._origin
        address = self._policy.pin(origin, await self._resolve(origin.host, origin.port))
        literal = f"[{address}]" if address.version == 6 else str(address)
        path = f"{origin.path}/v2/models/{quote(self._endpoint.model, safe='')}/infer"
        request = self._client.stream(
            "POST",
            f"{origin.scheme}://{literal}:{origin.port}{path}",
            content=body,
            headers=self._headers(),
            # The certificate is checked against the name, although the connection goes to the pinned address.
            extensions={"sni_hostname": origin.host},
            timeout=self._endpoint.seconds,
        )
        async with request as response:
            _check_head(response, self._endpoint.max_bytes)
            return await _read(response, self._endpoint.max_bytes)

    def _headers(self) -> dict[str, str]:
        headers = {
            "Host": self._origin.host_header,
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        if self._endpoint.credential is not None:
            headers["Authorization"] = f"Bearer {self._endpoint.credential.get_secret_value()}"
        return headers


def _check_head(response: httpx.Response, max_bytes: int) -> None:
    status = response.status_code
    if 300 <= status < 400:
        raise EndpointFailure(f"answered with a redirect (status {status}), which is not followed", passing=False)
    if status != 200:
        raise EndpointFailure(f"answered with status {status}", passing=status >= 500 or status in (408, 429))
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise EndpointFailure("answered in a compressed form that was not asked for", passing=False)
    announced = response.headers.get("Content-Length", "0")
    if announced.isdigit() and int(announced) > max_bytes:
        raise EndpointFailure(f"announced {announced} bytes, more than the {max_bytes} allowed", passing=False)


async def _read(response: httpx.Response, max_bytes: int) -> bytes:
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > max_bytes:
            raise EndpointFailure(f"sent more than the {max_bytes} bytes allowed", passing=False)
    return bytes(body)


FLOATS = frozenset({"FP16", "FP32", "FP64"})
DATATYPES = {FeatureKind.NUMERIC: "FP64", FeatureKind.INTEGER: "INT64", FeatureKind.CATEGORICAL: "BYTES"}


def encode_request(schema: Schema, records: Records, layout: Layout, outputs: Sequence[str]) -> bytes:
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
    request = {"parameters": parameters, "inputs": inputs, "outputs": [{"name": name} for name in outputs]}
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


def decode_response(body: bytes, rows: int, classes: int) -> dict[str, NDArray[np.float64]]:
    """output name -> probabilities (rows, classes), for the outputs that have that shape."""
    try:
        response = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise EndpointFailure("answered with what is not JSON", passing=False) from error
    outputs = response.get("outputs") if isinstance(response, dict) else None
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
