"""Every error has a problem of its own, and what is our own fault tells nothing about the inside."""

import errno
import json
from http import HTTPStatus
from importlib import import_module
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from app.api.problems import FRAMEWORK, PROBLEMS, answer_error, type_of
from app.errors import NotFoundError
from models.errors import RecourseError

ROOT = Path(__file__).parents[2]


def every_error(root: type[RecourseError] = RecourseError) -> set[type[RecourseError]]:
    return {root} | {error for child in root.__subclasses__() for error in every_error(child)}


def test_every_error_has_a_row() -> None:
    """Also those that a module keeps to itself: any file that defines one is imported first."""
    for package in ("app", "models"):
        for path in (ROOT / package).rglob("*.py"):
            if "Error(" in path.read_text(encoding="utf-8") and "class " in path.read_text(encoding="utf-8"):
                import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    missing = {error for error in every_error() if error.__module__.startswith(("app", "models"))} - set(PROBLEMS)
    assert not missing, "give it a row in app/problems.py"


def test_types_are_stable_words_and_statuses_are_errors() -> None:
    kinds = [*PROBLEMS.values(), *FRAMEWORK.values()]
    for kind in kinds:
        assert kind.slug.replace("-", "").isalpha() and kind.slug.islower()
        assert 400 <= kind.status < 600 and HTTPStatus(kind.status)
    words = [kind.slug for kind in PROBLEMS.values()]
    assert len(words) == len(set(words)), "two errors never share a type"


def test_the_nearest_ancestor_answers() -> None:
    class MissingModelError(NotFoundError):
        pass

    assert type_of(MissingModelError("no")) is PROBLEMS[NotFoundError]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "hunter2"),
        OperationalError("INSERT hunter2", {}, Exception("database or disk is full")),
        OperationalError("INSERT", {}, Exception("could not extend file hunter2: No space left on device")),
    ],
)
def test_a_full_disk_is_one_sentence(error: Exception) -> None:
    told = answer_error("r1", error)
    assert told.status_code == 507 and b"no space is left" in told.body and b"hunter2" not in told.body


@pytest.mark.parametrize("error", [RuntimeError("hunter2"), OperationalError("SELECT hunter2", {}, Exception())])
def test_internals_stay_inside(error: Exception) -> None:
    answer = answer_error("r1", error)
    body = json.loads(bytes(answer.body))
    assert answer.status_code in (500, 503)
    assert "hunter2" not in json.dumps(body)
    assert (body["instance"], body["status"]) == ("r1", answer.status_code)
