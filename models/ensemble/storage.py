"""A local ensemble in a folder: ensemble.json, encoder.json and a folder for each member; never pickle."""

import json
from pathlib import Path

import numpy as np

from models.encoding import Encoder
from models.ensemble.local import LocalEnsemble
from models.ensemble.member import Member
from models.ensemble.recipes import MEMBERS
from models.errors import ArtifactError, SchemaError

VERSION = 1
INDEX_FILE = "ensemble.json"
ENCODER_FILE = "encoder.json"


def save_ensemble(ensemble: LocalEnsemble, folder: Path) -> None:
    """Write the ensemble into the folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    index = {"version": VERSION, "members": list(ensemble.member_names), "classes": list(ensemble.classes)}
    (folder / INDEX_FILE).write_text(json.dumps(index))
    (folder / ENCODER_FILE).write_text(json.dumps(ensemble.encoder.to_json()))
    for member in ensemble.members:
        place = folder / member.name
        place.mkdir(exist_ok=True)
        member.save(place)


def load_ensemble(folder: Path) -> LocalEnsemble:
    """Read what `save_ensemble` wrote; its predictions are the same to the last bit."""
    index = _read_object(folder / INDEX_FILE)
    if index.get("version") != VERSION:
        raise ArtifactError(f"The ensemble in '{folder}' is of version {index.get('version')!r}, not {VERSION}.")
    names, classes = (_read_names(index, key, folder) for key in ("members", "classes"))
    try:
        encoder = Encoder.from_json(_read_object(folder / ENCODER_FILE))
    except SchemaError as error:
        raise ArtifactError(f"The encoder in '{folder}' is damaged: {error}") from error
    for name in names:
        if name not in MEMBERS:
            raise ArtifactError(f"The ensemble in '{folder}' names the unknown member '{name}'.")
    if classes != encoder.schema.classes:
        raise ArtifactError(f"The ensemble in '{folder}' has classes {list(classes)}, its encoder others.")
    members = tuple(MEMBERS[name].load(folder / name) for name in names)
    for member in members:
        _check_shape(member, encoder.width, len(classes))
    return LocalEnsemble(encoder, members, classes)


def _check_shape(member: Member, width: int, classes: int) -> None:
    """A member that was trained on other columns or classes belongs to another ensemble."""
    if member.width != width:
        raise ArtifactError(f"The member '{member.name}' takes {member.width} columns; the encoder gives {width}.")
    found = member.predict_proba(np.zeros((1, width))).shape[1]
    if found != classes:
        raise ArtifactError(f"The member '{member.name}' knows {found} classes; the ensemble has {classes}.")


def _read_object(path: Path) -> dict[str, object]:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ArtifactError(f"The file '{path}' is missing or is not JSON; train the ensemble anew.") from error
    if not isinstance(document, dict):
        raise ArtifactError(f"The file '{path}' does not hold a JSON object; train the ensemble anew.")
    return document


def _read_names(index: dict[str, object], key: str, folder: Path) -> tuple[str, ...]:
    names = index.get(key)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ArtifactError(f"The ensemble in '{folder}' has no list of texts '{key}'.")
    return tuple(names)
