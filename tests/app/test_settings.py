"""Settings come from the environment, and keep secrets."""

from pathlib import Path

import pytest

from app.settings import Settings
from models.errors import ConfigError


def test_defaults_are_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECOURSE_DATABASE_URL", raising=False)
    settings = Settings()
    assert (settings.database, settings.blackbox_hosts) == ("sqlite:///var/recourse.db", ())


def test_names_of_the_design(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOURSE_VAR_DIR", "/srv/recourse")
    monkeypatch.setenv("RECOURSE_DATABASE_URL", "postgresql://recourse:hunter2@db/recourse")
    monkeypatch.setenv("RECOURSE_BLACKBOX_HOSTS", "a.example, b.example:8443,")
    monkeypatch.setenv("RECOURSE_BLACKBOX_NETWORKS", "10.0.0.0/8")
    settings = Settings()
    assert settings.var_dir == Path("/srv/recourse")
    assert settings.database == "postgresql://recourse:hunter2@db/recourse"
    assert (settings.blackbox_hosts, settings.blackbox_networks) == (("a.example", "b.example:8443"), ("10.0.0.0/8",))
    assert "hunter2" not in repr(settings)


def test_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOURSE_LOG_FORMAT", "xml")
    with pytest.raises(ConfigError, match="RECOURSE_LOG_FORMAT is 'xml'"):
        Settings()


def test_an_empty_value_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compose file passes on what is not set as an empty text."""
    monkeypatch.setenv("RECOURSE_DATABASE_URL", "")
    monkeypatch.setenv("RECOURSE_EXPLAIN_BATCH", "")
    settings = Settings()
    assert (settings.database_url, settings.explain_batch) == (None, 64)
