"""Settings come from the environment, and keep secrets."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from app.settings import Settings, environment_of
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


def test_secrets_may_be_in_files_and_given_ones_win(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("key_secret", "database_url", "redis_url", "worker_key", "admin_key"):
        path = tmp_path / name
        path.write_text(f"{name} of the file\n")
        monkeypatch.delenv(f"RECOURSE_{name.upper()}", raising=False)
        monkeypatch.setenv(f"RECOURSE_{name.upper()}_FILE", str(path))
    monkeypatch.setenv("RECOURSE_WORKER_KEY", "given")
    settings = Settings(key_secret=SecretStr("an argument"))
    environment = environment_of(settings)
    assert settings.database == "database_url of the file"
    assert environment["RECOURSE_REDIS_URL"] == "redis_url of the file"
    assert environment["RECOURSE_ADMIN_KEY"] == "admin_key of the file"
    assert (environment["RECOURSE_WORKER_KEY"], environment["RECOURSE_KEY_SECRET"]) == ("given", "an argument")
    assert "of the file" not in repr(settings)


@pytest.mark.parametrize(("text", "fact"), [(None, "cannot be read"), ("\n", "is empty")])
def test_a_file_without_its_secret_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, fact: str
) -> None:
    """Else a new secret would be made, with which no key works."""
    if text is not None:
        (tmp_path / "secret").write_text(text)
    monkeypatch.setenv("RECOURSE_KEY_SECRET_FILE", str(tmp_path / "secret"))
    with pytest.raises(ConfigError, match=f"RECOURSE_KEY_SECRET_FILE names .*/secret, which {fact}"):
        Settings()


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
