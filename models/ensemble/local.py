"""A local ensemble: trained here and asked in this process, as a stand-in for a lender's models (paper, appendix).

`save_ensemble` writes it to a folder with ensemble.json, encoder.json and a folder for each member; never pickle.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..arrays import Codes, Records
from ..data.json_fields import read_object
from ..errors import ArtifactError, ConfigError, DataError, SchemaError
from ..space.encoding import Encoder
from .member import Member, require_every_class
from .recipes import FOLDS, MEMBER_NAMES, MEMBERS, SHORTLISTS, Mode, choose_recipe

Stage: TypeAlias = Literal["search", "fit"]


@dataclass(frozen=True)
class LocalEnsemble:
    """Members that share one encoder; implements models.ensemble.protocol.Ensemble."""

    encoder: Encoder
    members: tuple[Member, ...]
    classes: tuple[str, ...]

    @property
    def member_names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> probabilities (m, n, K)"""
        if len(records) == 0:
            return np.empty((len(self.members), 0, len(self.classes)))
        x = self.encoder.encode(records)
        return np.stack([member.predict_proba(x) for member in self.members])


@dataclass(frozen=True, slots=True)
class EnsembleProgress:
    """One unit of work was done: a recipe was scored ("search") or a member was trained ("fit")."""

    member: str
    stage: Stage
    done: int
    total: int


def train_local_ensemble(
    encoder: Encoder,
    records: Records,
    labels: Codes,
    mode: Mode = "quick",
    members: Sequence[str] = MEMBER_NAMES,
    seed: int = 0,
    progress: Callable[[EnsembleProgress], None] | None = None,
) -> LocalEnsemble:
    """records (n, F), labels (n,) class codes of training (and validation) rows; the test split has no business here.

    `quick` takes good defaults, `tuned` searches the paper's grid. The members come in the paper's order, whatever the
    order of `members`. One core is used; the same seed gives the same ensemble. An error of `progress` ends the
    training.
    """
    shortlists = {name: SHORTLISTS[mode][name] for name in _check_names(members)}
    classes, x = encoder.schema.classes, encoder.encode(records)
    y = _check_labels(labels, len(x), len(classes))
    total, done = sum(shortlist.units for shortlist in shortlists.values()), count(1)
    trained: list[Member] = []

    def tell(member: str, stage: Stage) -> None:
        if progress is not None:
            progress(EnsembleProgress(member, stage, next(done), total))

    # Without the limit the linear algebra of these small models is slower: its threads wait for each other.
    with threadpool_limits(limits=1):
        for name, shortlist in shortlists.items():
            recipe = choose_recipe(shortlist, x, y, len(classes), seed, partial(tell, name, "search"))
            trained.append(recipe.fit(x, y, len(classes), seed))
            tell(name, "fit")
    return LocalEnsemble(encoder, tuple(trained), classes)


def _check_names(members: Sequence[str]) -> list[str]:
    """The members that were asked for, in the paper's order."""
    for name in members:
        if name not in MEMBER_NAMES:
            raise ConfigError(f"There is no ensemble member '{name}'; choose from {', '.join(MEMBER_NAMES)}.")
    if not members:
        raise ConfigError(f"The ensemble needs at least one member of {', '.join(MEMBER_NAMES)}.")
    return [name for name in MEMBER_NAMES if name in members]


def _check_labels(labels: Codes, rows: int, classes: int) -> Codes:
    """The labels (n,) as class codes; each class needs a row in each fold of a cross-validation."""
    y = np.asarray(labels, dtype=np.int64)
    if len(y) != rows:
        raise DataError(f"There are {rows} training records but {len(y)} labels.")
    require_every_class(y, classes)
    counts = np.bincount(y, minlength=classes)
    if counts.min() < FOLDS:
        code = int(counts.argmin())
        raise DataError(f"Class {code} has {counts[code]} training rows; {FOLDS} folds need at least {FOLDS}.")
    return y


VERSION = 1
INDEX_FILE = "ensemble.json"
ENCODER_FILE = "encoder.json"
AGAIN = "train the ensemble again"


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
    index = read_object(folder / INDEX_FILE, AGAIN)
    if index.get("version") != VERSION:
        raise ArtifactError(f"The ensemble in '{folder}' is of version {index.get('version')!r}, not {VERSION}.")
    names, classes = (_read_names(index, key, folder) for key in ("members", "classes"))
    try:
        encoder = Encoder.from_json(read_object(folder / ENCODER_FILE, AGAIN))
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


def _read_names(index: Mapping[str, object], key: str, folder: Path) -> tuple[str, ...]:
    names = index.get(key)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ArtifactError(f"The ensemble in '{folder}' has no list of texts '{key}'.")
    return tuple(names)
