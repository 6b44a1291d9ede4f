"""A trained model in a folder, never pickled: what every file holds, and the way back to the same bits.

manifest.json        the SHA-256 of the other files and the content hash (models/storage/sealed.py)
encoder.json         the encoder and its schema
model.json           configuration, its format, calibration, generated features, frontier, density quantiles, seed
weights.safetensors  the surrogate pair, the velocity field, and vectors of spectral norms
anchors.safetensors  the anchors (models/space/anchors.py)
policy.json          the action policy, where there is one (docs/POLICY.md)
ensemble/            the local ensemble, where one was trained with the model (models/ensemble/storage.py)
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from ..config import Config
from ..data.json_fields import read_mapping, read_number, read_object, read_texts
from ..data.policy import Policy
from ..device import find_device
from ..ensemble.local import LocalEnsemble, load_ensemble, save_ensemble
from ..errors import ArtifactError, ConfigError, SchemaError
from ..model import Calibration, FrontierPoint, RecourseModel
from ..networks.surrogate import SurrogatePair
from ..networks.velocity import Velocity, make_velocity
from ..space.anchors import Anchors
from ..space.encoding import Encoder
from .config_json import FORMAT, config_from_json, config_to_json
from .sealed import check_seal, write_object, write_sealed

ENCODER_FILE = "encoder.json"
MODEL_FILE = "model.json"
WEIGHTS_FILE = "weights.safetensors"
ANCHORS_FILE = "anchors.safetensors"
POLICY_FILE = "policy.json"
ENSEMBLE_FOLDER = "ensemble"
OLD_NAMES = {"flowing": "generated_features", "usual_scores": "density_quantiles"}
"""What `model.json` called its parts up to version 0.1."""

DROPPED = "scout."
"""The network that ranked the ends of paths before they were decoded, in models of version 0.1."""


def save_model(model: RecourseModel, folder: Path, ensemble: LocalEnsemble | None = None) -> str:
    """Write the model, whole or not at all, into a folder that is not there yet or is empty; returns its content hash.

    A local ensemble goes along, so that a verified search can ask it.
    """
    if ensemble is not None and ensemble.classes != model.classes:
        raise ArtifactError(f"The model has the classes {list(model.classes)}, its ensemble {list(ensemble.classes)}.")
    return write_sealed(folder, partial(_write, model, ensemble))


def load_model(folder: Path, device: str = "cpu") -> RecourseModel:
    """Read what `save_model` wrote; its answers are the same to the last bit. The content hash is checked first."""
    check_seal(folder)
    document = {OLD_NAMES.get(name, name): value for name, value in read_object(folder / MODEL_FILE).items()}
    try:
        encoder = Encoder.from_json(read_object(folder / ENCODER_FILE))
        model = _read_model(document, encoder)
    except (SchemaError, ConfigError) as error:
        raise ArtifactError(f"The model in '{folder}' cannot be read: {error}") from error
    anchors = _read_anchors(folder / ANCHORS_FILE, encoder)
    policy = Policy.from_json(read_object(folder / POLICY_FILE)) if (folder / POLICY_FILE).exists() else model.policy
    model = replace(model, config=replace(model.config, device=device), anchors=anchors, policy=policy)
    _read_weights(model, folder / WEIGHTS_FILE)
    _modules(model).to(find_device(device)).eval()
    return model


def load_ensemble_of(folder: Path) -> LocalEnsemble:
    """The local ensemble that was saved with a model."""
    check_seal(folder)
    if not (folder / ENSEMBLE_FOLDER).is_dir():
        raise ArtifactError(f"The model in '{folder}' was saved without an ensemble; name the black boxes to ask.")
    return load_ensemble(folder / ENSEMBLE_FOLDER)


def _write(model: RecourseModel, ensemble: LocalEnsemble | None, folder: Path) -> None:
    write_object(folder / ENCODER_FILE, model.encoder.to_json())
    write_object(folder / MODEL_FILE, _to_document(model))
    (folder / WEIGHTS_FILE).write_bytes(save(_weights(model)))
    parts = {"points": model.anchors.points, "labels": model.anchors.labels}
    anchors = {name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in parts.items()}
    (folder / ANCHORS_FILE).write_bytes(save(anchors))
    if model.policy.features or model.policy.rules:
        write_object(folder / POLICY_FILE, model.policy.to_json())
    if ensemble is not None:
        save_ensemble(ensemble, folder / ENSEMBLE_FOLDER)


def _to_document(model: RecourseModel) -> dict[str, object]:
    calibration = {"slope": model.calibration.slope, "bias": model.calibration.bias.tolist()}
    frontier = [{"price": at.cost_weight, "cost": at.cost, "agreement": at.agreement} for at in model.frontier]
    return {
        "config": config_to_json(model.config),
        "config_format": FORMAT,
        "calibration": calibration,
        "generated_features": sorted(model.generated_features),
        "seed": model.seed,
        "queries": model.queries,
        "frontier": frontier,
        "density_quantiles": [list(scores) for scores in model.density_quantiles],
    }


def _read_model(document: Mapping[str, object], encoder: Encoder) -> RecourseModel:
    """The model with networks that still wait for their weights."""
    # Models from before the format was written down have the first.
    config, owner = config_from_json(document.get("config"), document.get("config_format", 1)), f"'{MODEL_FILE}'"
    generated = frozenset(read_texts(document, "generated_features", owner))
    if stray := sorted(generated - set(encoder.schema.names)):
        raise SchemaError(f"'{stray[0]}' is generated but is no feature.")
    pair, velocity = _networks(encoder, config)
    return RecourseModel(
        encoder=encoder,
        config=config,
        pair=pair,
        velocity=velocity,
        calibration=_read_calibration(read_mapping(document.get("calibration"), "'calibration'"), encoder),
        generated_features=generated,
        seed=_read_count(document, "seed"),
        queries=_read_count(document, "queries"),
        frontier=tuple(_read_point(entry) for entry in _read_list(document, "frontier")),
        # Models from before it was measured have none.
        density_quantiles=_read_density_quantiles(document, encoder) if "density_quantiles" in document else (),
    )


def _read_density_quantiles(document: Mapping[str, object], encoder: Encoder) -> tuple[tuple[float, ...], ...]:
    """One list of rising numbers for each class, or none at all"""
    rows = [_read_rising(row) for row in _read_list(document, "density_quantiles")]
    if len(rows) not in (0, len(encoder.schema.classes)) or None in rows:
        raise SchemaError("Expected 'density_quantiles' to hold a list of rising numbers for each class.")
    return tuple(row for row in rows if row is not None)


def _read_rising(row: object) -> tuple[float, ...] | None:
    """None for anything but a list of numbers, none of which is below the one before it"""
    numbers = isinstance(row, list) and all(isinstance(number, float) for number in row)
    return tuple(row) if isinstance(row, list) and numbers and row == sorted(row) else None


def _read_calibration(document: Mapping[str, object], encoder: Encoder) -> Calibration:
    bias, classes = _read_list(document, "bias"), len(encoder.schema.classes)
    if len(bias) != classes or not all(isinstance(value, float) for value in bias):
        raise SchemaError(f"Expected 'bias' of the calibration to be a list of {classes} numbers, not {bias!r}.")
    return Calibration(read_number(document, "slope", "the calibration"), np.array(bias, dtype=np.float64))


def _read_point(entry: object) -> FrontierPoint:
    point, owner = read_mapping(entry, "an entry of 'frontier'"), "a point of the frontier"
    return FrontierPoint(*(read_number(point, key, owner) for key in ("price", "cost", "agreement")))


def _read_count(document: Mapping[str, object], key: str) -> int:
    value = document.get(key)
    if type(value) is not int:
        raise SchemaError(f"Expected '{key}' to be a whole number, not {value!r}.")
    return value


def _read_list(document: Mapping[str, object], key: str) -> list[object]:
    value = document.get(key)
    if not isinstance(value, list):
        raise SchemaError(f"Expected '{key}' to be a list, not {value!r}.")
    return value


def _networks(encoder: Encoder, config: Config) -> tuple[SurrogatePair, Velocity]:
    """Networks of the right shape; making them leaves the caller's random numbers alone."""
    classes = len(encoder.schema.classes)
    with torch.random.fork_rng(devices=[]):
        pair = SurrogatePair(encoder.width, classes, config.surrogate)
        return pair, make_velocity(encoder.width, classes, config.flow)


def _modules(model: RecourseModel) -> nn.ModuleDict:
    return nn.ModuleDict({"pair": model.pair, "velocity": model.velocity})


def _weights(model: RecourseModel) -> dict[str, Tensor]:
    """All parameters and buffers by name, on the CPU."""
    weights = {name: value.detach().cpu().contiguous() for name, value in _modules(model).state_dict().items()}
    for name, value in weights.items():
        if not bool(value.isfinite().all()):
            raise ArtifactError(f"The weights '{name}' are not finite: training diverged; lower the learning rates.")
    return weights


def _read_anchors(path: Path, encoder: Encoder) -> Anchors:
    try:
        tensors = load(path.read_bytes())
        points, labels = tensors["points"].numpy(), tensors["labels"].numpy()
    except (OSError, SafetensorError, KeyError) as error:
        raise ArtifactError(f"The anchors in '{path}' are missing or damaged.") from error
    known = np.isin(labels, np.arange(len(encoder.schema.classes))).all()
    if len(points) and (points.shape != (len(labels), encoder.width) or not known):
        raise ArtifactError(f"The anchors in '{path}' do not fit the model's encoder.")
    return Anchors(points, labels)


def _read_weights(model: RecourseModel, path: Path) -> None:
    """Fill the model's networks; names and shapes must fit exactly. Models of version 0.1 may have one network more."""
    try:
        weights = {name: value for name, value in load(path.read_bytes()).items() if not name.startswith(DROPPED)}
        _modules(model).load_state_dict(weights)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ArtifactError(f"The weights in '{path}' are missing or do not fit the model's settings.") from error
