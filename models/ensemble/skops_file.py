"""scikit-learn models as skops files: no pickle, and no type but the ones that the caller names.

skops is imported where it is needed: that takes more than a second, which every process would pay at its start.
"""

from pathlib import Path
from typing import TypeVar
from zipfile import BadZipFile

from models.errors import ArtifactError

Estimator = TypeVar("Estimator")


def save_estimator(estimator: object, path: Path) -> None:
    import skops.io

    skops.io.dump(estimator, path)


def load_estimator(path: Path, kind: type[Estimator], trusted: tuple[str, ...]) -> Estimator:
    """The estimator in the file, which is a `kind` made of the types that skops knows and the `trusted` ones."""
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    if not path.is_file():
        raise ArtifactError(f"The model file '{path}' is missing; train the ensemble anew.")
    try:
        estimator = skops.io.load(path, trusted=list(trusted))
    except UntrustedTypesFoundException as error:
        raise ArtifactError(f"The model file '{path}' holds types that are not allowed: {error}") from error
    except (BadZipFile, KeyError, ValueError, TypeError, AttributeError, OSError, EOFError) as error:
        raise ArtifactError(f"The model file '{path}' is damaged ({error}); train the ensemble anew.") from error
    if not isinstance(estimator, kind):
        raise ArtifactError(f"The model file '{path}' holds a {type(estimator).__name__}, not a {kind.__name__}.")
    return estimator
