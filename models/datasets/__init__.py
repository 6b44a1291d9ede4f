"""Data sets by name: the paper's, public or made here, and our own loans."""

from pathlib import Path

from ..errors import ConfigError
from .dataset import Dataset, Split
from .loans import loans
from .public import PUBLIC_NAMES, read_public
from .synthetic import chessboard, circles, four_blobs, moons, spirals

__all__ = ["NAMES", "Dataset", "Split", "load", "split"]

_MADE = {
    "moons": moons,
    "circles": circles,
    "spirals": spirals,
    "chessboard": chessboard,
    "four_blobs": four_blobs,
    "loans": loans,
}

NAMES = (*_MADE, *PUBLIC_NAMES)


def load(name: str, folder: Path | None = None, seed: int = 0) -> Dataset:
    """The data set `name`; public ones are read from `folder`, the others are made from `seed`.

    >>> moons = load("moons", seed=1)
    >>> moons.frame.shape, moons.label
    ((3000, 3), 'label')
    """
    if name in _MADE:
        return _MADE[name](seed=seed)
    if name in PUBLIC_NAMES:
        return read_public(name, folder)
    raise ConfigError(f"There is no data set '{name}'; the data sets are {', '.join(NAMES)}.")
