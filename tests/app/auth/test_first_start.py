"""The first start makes a tenant and an admin key, once, and keeps them to itself."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import delete, select

from app.auth import queries
from app.auth.keyring import Keyring, open_keyring
from app.auth.principals import KeyCache
from app.auth.service import DEFAULT_TENANT, accept_new_secret, set_up
from app.db.engine import Database
from app.db.tables import ApiKey, Role, SecretCheck, utc_now
from app.settings import Settings
from models.errors import ConfigError


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(var_dir=tmp_path / "var", admin_key=None, key_secret=None)


def holder(database: Database, keyring: Keyring, key: str) -> Role:
    return KeyCache(database, keyring, 1.0).look_up(key).role


def count(database: Database) -> int:
    with database.reading() as connection:
        return len(connection.execute(select(ApiKey.id)).all())


def test_a_key_is_made_once_and_kept(settings: Settings, database: Database) -> None:
    keyring = open_keyring(settings, database)
    file = set_up(settings, database, keyring)
    kept = settings.var_dir / "admin.key"
    assert file == kept
    first = kept.read_text().strip()
    assert holder(database, keyring, first) is Role.ADMIN
    assert set_up(settings, database, open_keyring(settings, database)) is None, "the second start makes none"
    assert kept.read_text().strip() == first
    for path in (kept, settings.var_dir / "secret.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert holder(database, open_keyring(settings, database), first) is Role.ADMIN, "after a restart too"


def test_a_given_key_is_taken_and_not_printed(settings: Settings, database: Database) -> None:
    keyring = open_keyring(settings, database)
    given = settings.model_copy(update={"admin_key": SecretStr("rk_chosen-by-the-operator")})
    assert set_up(given, database, keyring) is None
    assert set_up(given, database, keyring) is None
    assert holder(database, keyring, "rk_chosen-by-the-operator") is Role.ADMIN
    assert count(database) == 1
    assert not (settings.var_dir / "admin.key").exists()


@pytest.mark.parametrize("weak", ["short", "has a blank in the middle", "ä" * 20])
def test_a_weak_key_is_refused(settings: Settings, database: Database, weak: str) -> None:
    with pytest.raises(ConfigError, match="RECOURSE_ADMIN_KEY"):
        set_up(settings.model_copy(update={"admin_key": SecretStr(weak)}), database, open_keyring(settings, database))


def test_a_new_database_takes_the_key_that_is_kept(settings: Settings, database: Database) -> None:
    keyring = open_keyring(settings, database)
    file = set_up(settings, database, keyring)
    assert file is not None
    first = file.read_text()
    with database.writing() as connection:
        connection.execute(delete(ApiKey))
    assert set_up(settings, database, keyring) == file and file.read_text() == first
    assert holder(database, keyring, first.strip()) is Role.ADMIN


def test_processes_that_start_together_make_one_key(settings: Settings, database: Database) -> None:
    def start(_: int) -> Path | None:
        return set_up(settings, database, open_keyring(settings, database))

    with database.writing() as connection:
        queries.ensure_tenant(connection, DEFAULT_TENANT, utc_now())
    with ThreadPoolExecutor(6) as pool:
        made = [file for file in pool.map(start, range(6)) if file is not None]
    assert (len(made), count(database)) == (1, 1)


@pytest.mark.parametrize("lost", ["the file", "the setting"])
def test_another_secret_is_refused_beside_existing_keys(settings: Settings, database: Database, lost: str) -> None:
    """It was replaced in silence: every key was dead and nothing said so."""
    file = set_up(settings, database, open_keyring(settings, database))
    assert file is not None
    if lost == "the file":
        (settings.var_dir / "secret.key").unlink()
    else:
        settings = settings.model_copy(update={"key_secret": SecretStr("another secret altogether")})
    with pytest.raises(ConfigError, match=r"restore it from the backup, or .* `recourse key accept-new-secret`"):
        open_keyring(settings, database)
    assert (settings.var_dir / "secret.key").exists() == (lost == "the setting"), "none was made by the way"
    assert accept_new_secret(settings, database) == 1
    keyring = open_keyring(settings, database)
    assert set_up(settings, database, keyring) == file, "its admin works again"
    assert holder(database, keyring, file.read_text().strip()) is Role.ADMIN


def test_a_database_of_an_older_release_remembers_the_secret_that_it_meets_first(
    settings: Settings, database: Database
) -> None:
    set_up(settings, database, open_keyring(settings, database))
    with database.writing() as connection:
        connection.execute(delete(SecretCheck))
    open_keyring(settings, database)
    (settings.var_dir / "secret.key").write_text("a secret that is another\n")
    with pytest.raises(ConfigError, match="is not the one that the keys in the database were made with"):
        open_keyring(settings, database)


def test_a_stolen_database_opens_nothing(settings: Settings, database: Database) -> None:
    """Without the secret the digests say nothing, and credentials stay closed."""
    mine, other = Keyring(b"s" * 32), Keyring(b"t" * 32)
    assert mine.digest("rk_x") != other.digest("rk_x")
    sealed = mine.encrypt("token")
    assert "token" not in sealed and mine.decrypt(sealed) == "token"
    with pytest.raises(Exception, match="RECOURSE_KEY_SECRET"):
        other.decrypt(sealed)
    with pytest.raises(ConfigError, match="16 or more"):
        open_keyring(settings.model_copy(update={"key_secret": SecretStr("weak")}), database)
