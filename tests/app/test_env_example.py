""".env.example names every setting with its default, and nothing else."""

from pathlib import Path

import pytest

from app.settings import Settings

EXAMPLE = Path(__file__).parents[2] / ".env.example"


def named() -> dict[str, str]:
    lines = (line.removeprefix("#") for line in EXAMPLE.read_text(encoding="utf-8").splitlines())
    return dict(line.split("=", 1) for line in lines if line.startswith("RECOURSE_"))


def test_every_setting_is_named() -> None:
    assert set(named()) == {f"RECOURSE_{name.upper()}" for name in Settings.model_fields}


def test_the_values_are_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in named():
        monkeypatch.delenv(name, raising=False)
    plain = Settings()
    for name, value in named().items():
        if value:
            monkeypatch.setenv(name, value)
    assert Settings() == plain
