"""The examples in docstrings are true: those of every module that has some."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"app": ROOT / "app", "models": ROOT / "models", "recourse_client": ROOT / "client" / "recourse_client"}


def modules() -> list[str]:
    """app.x.y of each file with an example."""
    return [
        ".".join((name, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
        for name, folder in PACKAGES.items()
        for path in sorted(folder.rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", modules())
def test_the_examples_give_what_they_show(name: str) -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    found = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0
