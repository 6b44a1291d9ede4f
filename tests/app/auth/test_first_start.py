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
from app.auth.service import DEFAULT_TENANT, set_up
from app.db.engine import Database
from app.db.tables import ApiKey, Role, utc_now
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
    keyring = open_keyring(settings)
    first = set_up(settings, database, keyring)
    assert first is not None and holder(database, keyring, first.text) is Role.ADMIN
    assert set_up(settings, database, open_keyring(settings)) is None, "the second start makes none"
    kept = settings.var_dir / "admin.key"
    assert kept.read_text().strip() == first.text
    for path in (kept, settings.var_dir / "secret.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert holder(database, open_keyring(settings), first.text) is Role.ADMIN, "after a restart too"


def test_a_given_key_is_taken_and_not_printed(settings: Settings, database: Database) -> None:
    keyring = open_keyring(settings)
    given = settings.model_copy(update={"admin_key": SecretStr("rk_chosen-by-the-operator")})
    assert set_up(given, database, keyring) is None
    assert set_up(given, database, keyring) is None
    assert holder(database, keyring, "rk_chosen-by-the-operator") is Role.ADMIN
    assert count(database) == 1
    assert not (settings.var_dir / "admin.key").exists()


@pytest.mark.parametrize("weak", ["short", "has a blank in the middle", "ä" * 20])
def test_a_weak_key_is_refused(settings: Settings, database: Database, weak: str) -> None:
    with pytest.raises(ConfigError, match="RECOURSE_ADMIN_KEY"):
        set_up(settings.model_copy(update={"admin_key": SecretStr(weak)}), database, open_keyring(settings))


def test_a_new_database_takes_the_key_that_is_kept(settings: Settings, database: Database) -> None:
    keyring = open_keyring(settings)
    first = set_up(settings, database, keyring)
    with database.writing() as connection:
        connection.execute(delete(ApiKey))
    again = set_up(settings, database, keyring)
    assert first is not None and again is not None and again.text == first.text


def test_processes_that_start_together_make_one_key(settings: Settings, database: Database) -> None:
    def start(_: int) -> str | None:
        first = set_up(settings, database, open_keyring(settings))
        return None if first is None else first.text

    with database.writing() as connection:
        queries.ensure_tenant(connection, DEFAULT_TENANT, utc_now())
    with ThreadPoolExecutor(6) as pool:
        made = [text for text in pool.map(start, range(6)) if text is not None]
    assert (len(made), count(database)) == (1, 1)


def test_a_stolen_database_opens_nothing(settings: Settings, database: Database) -> None:
    """Without the secret the digests say nothing, and credentials stay closed."""
    mine, other = Keyring(b"s" * 32), Keyring(b"t" * 32)
    assert mine.digest("rk_x") != other.digest("rk_x")
    sealed = mine.encrypt("token")
    assert "token" not in sealed and mine.decrypt(sealed) == "token"
    with pytest.raises(Exception, match="RECOURSE_KEY_SECRET"):
        other.decrypt(sealed)
    with pytest.raises(ConfigError, match="16 or more"):
        open_keyring(settings.model_copy(update={"key_secret": SecretStr("weak")}))
