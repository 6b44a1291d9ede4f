"""What an uploaded table is: kinds, bounds and categories of its columns, inferred, and how often each class is there.

A table takes several times its size in memory, and a small Parquet file may unpack to gigabytes, whatever it says of
itself. So all but small CSVs are read by a child process that has a limit of memory, a limit of time, and no say in how
soon the service answers everybody else: `python -m app.datasets.description`, which reads a question as JSON.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from app import errors as app_errors
from app.datasets.reader import TableLimits, is_parquet, read_table
from app.errors import TooLargeError
from models import errors as model_errors
from models.data.columns import Inspection, check_columns, inspect_columns
from models.data.frames import plain_values
from models.data.infer import infer_features, infer_schema
from models.data.protected import protected_notice, protected_of
from models.data.records import category_text
from models.data.schema import Feature
from models.errors import DataError, RecourseError

QUICK_BYTES = 256 * 1024
"""A CSV up to this size is read here: it takes less than to start a process."""
TABLE_BYTES = 2 * 2**30
"""Memory of the child process, besides the file itself."""
TABLE_SECONDS, MOST_SECONDS = 300, 3_600
"""Of a processor; and of the clock, where others have the processors."""
TOO_LARGE = 3
"""The child's exit code where the memory was not enough."""
MEMORY_WORDS = ("out of memory", "Calling read(nbytes) on source failed")
"""As pandas says it of a CSV."""
POLITENESS = 5
FIRST_TO_GO = "1000"
"""Where the memory of all is used up, the system ends the child, and not the service."""
# Allocators that reserve room they may never use would reach the limit by that alone.
ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class Question:
    """A file, and what was said of it; `categories`: columns that are some, even if they look like numbers or dates."""

    path: Path
    limits: TableLimits
    label: str | None = None
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """`ending`: that the file should have. Without a label there are features only, and no classes."""

    ending: str
    rows: int
    schema: dict[str, Any]
    class_counts: dict[str, int] | None = None
    notices: list[str] = field(default_factory=list)


def describe(question: Question) -> Description:
    """What the file holds; DataError says what is wrong with it, TooLargeError what is too much."""
    size = question.path.stat().st_size
    if size <= QUICK_BYTES and not is_parquet(question.path):
        return describe_here(question)
    return _describe_elsewhere(question, TABLE_BYTES + size)


def describe_here(question: Question) -> Description:
    """The same in this process."""
    table, label = read_table(question.path, question.limits), question.label
    said = {column: {"kind": "categorical"} for column in question.categories}
    seen = inspect_columns(table.frame, label if label in table.frame.columns else None, said)
    frame, overrides = table.frame.drop(columns=list(seen.left_out)), {"features": said}
    if label is None:
        check_columns(frame, question.categories, _way_out, infer_features)
        features = infer_features(frame, overrides)
        listed = {"features": [feature.to_json() for feature in features]}
        return Description(table.ending, len(frame), listed, notices=_notices(features, seen))
    check_columns(frame, {label, *question.categories}, _way_out, lambda rest: infer_schema(rest, label))
    schema = infer_schema(frame, label, overrides, for_advice=True)
    counts = _count(frame[label], schema.classes)
    return Description(table.ending, len(frame), schema.to_json(), counts, _notices(schema.features, seen))


def _notices(features: Iterable[Feature], seen: Inspection) -> list[str]:
    """What to know before training: protected attributes, columns that were left out, codes for missing values."""
    found = ((feature.name, protected_of(feature)) for feature in features)
    return [*(protected_notice(name, one) for name, one in found if one is not None), *seen.sentences]


def _way_out(column: str) -> str:
    return f"send the form field categories={column} if it is a category"


def _count(labels: pd.Series, classes: tuple[str, ...]) -> dict[str, int]:
    counts = pd.Series([category_text(value) for value in plain_values(labels)]).value_counts()
    return {name: int(counts[name]) for name in classes}


def _describe_elsewhere(question: Question, memory: int) -> Description:
    asked = asdict(question) | {"path": str(question.path), "memory": memory, "seconds": TABLE_SECONDS}
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "app.datasets.description"],
            input=json.dumps(asked).encode(),
            env=os.environ | ENVIRONMENT,
            timeout=MOST_SECONDS,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise TooLargeError(f"reading the table took more than {MOST_SECONDS} s: send a sample of it") from None
    if ended.returncode == -signal.SIGXCPU:
        fact = f"reading the table takes more than {TABLE_SECONDS} s of a processor"
        raise TooLargeError(f"{fact}: send a sample of it")
    if ended.returncode == TOO_LARGE:
        raise TooLargeError(f"reading the table takes more than {memory} bytes of memory: send a sample of it")
    if ended.returncode != 0:
        raise DataError("The file cannot be read: reading it broke off; write it again, or send a sample of it.")
    answer = json.loads(ended.stdout)
    if "error" in answer:
        raise _error_named(answer["error"])(answer["message"])
    return Description(**answer)


def _error_named(name: str) -> type[RecourseError]:
    kind: type[RecourseError] = getattr(model_errors, name, None) or getattr(app_errors, name)
    return kind


def main() -> int:
    """The child: a question on stdin, the description or its refusal on stdout."""
    asked = json.load(sys.stdin)
    _stand_back(asked["memory"], asked["seconds"])
    limits, categories = TableLimits(**asked["limits"]), tuple(asked["categories"])
    try:
        answer = asdict(describe_here(Question(Path(asked["path"]), limits, asked["label"], categories)))
    except RecourseError as error:
        if any(words in str(error) for words in MEMORY_WORDS):
            return TOO_LARGE
        answer = {"error": type(error).__name__, "message": str(error)}
    except MemoryError:
        return TOO_LARGE
    json.dump(answer, sys.stdout)
    return 0


def _stand_back(memory: int, seconds: int) -> None:
    # Where the system has no such limits, what is counted while it is read still ends it.
    # At the first limit of time the system tells the process, at the second it kills it.
    for limit, most in ((resource.RLIMIT_AS, (memory, memory)), (resource.RLIMIT_CPU, (seconds, seconds + 1))):
        with suppress(OSError, ValueError):
            resource.setrlimit(limit, most)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO)
    os.nice(POLITENESS)


if __name__ == "__main__":
    sys.exit(main())
