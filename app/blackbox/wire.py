"""Open Inference Protocol v2: records as a request, a response as probabilities."""

import json
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.blackbox.endpoint import EndpointFailure, Layout
from models.errors import EnsembleError
from models.matrix import Records
from models.schema import Feature, Kind, Schema

FLOATS = frozenset({"FP16", "FP32", "FP64"})
DATATYPES = {Kind.NUMERIC: "FP64", Kind.INTEGER: "INT64", Kind.CATEGORICAL: "BYTES"}


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
    as_float = feature.kind is Kind.INTEGER and (feature.nullable or bool(np.isnan(values).any()))
    tensor: dict[str, object] = {
        "name": feature.name,
        "shape": [len(values), 1],
        "datatype": "FP64" if as_float else DATATYPES[feature.kind],
        "data": [None if math.isnan(value) else _raw(feature, value) for value in values.tolist()],
    }
    if feature.kind is Kind.CATEGORICAL:
        tensor["parameters"] = {"content_type": "str"}
    return tensor


def _raw(feature: Feature, value: float) -> str | int | float:
    match feature.kind:
        case Kind.CATEGORICAL:
            return feature.categories[int(value)]
        case Kind.INTEGER:
            return int(value)
        case Kind.NUMERIC:
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
