"""API keys: how they are made, and what is kept of them. A key is rk_ + prefix + secret, 256 bits of chance in all.

The database remembers a check value of the secret that all keys are hashed with. A process with another secret is
refused: with it every key would be dead, and nobody would know why.
"""

import base64
import hashlib
import hmac
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from sqlalchemy import Connection, delete, exists, or_, select

from app.db.engine import Database, insert_or_ignore
from app.db.tables import ApiKey, SecretCheck
from app.errors import UnavailableError
from app.settings import Settings
from models.errors import ConfigError

PREFIX_LENGTH = 8
LEAST_SECRET = 16
SECRET_FILE = "secret.key"


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key as its owner sees it, once; `prefix` and `digest` are what is kept."""

    text: str
    prefix: str
    digest: str


class Keyring:
    """The secret that keys are hashed with, and credentials encrypted: a stolen database opens nothing."""

    def __init__(self, secret: bytes) -> None:
        self._hash = hmac.digest(secret, b"recourse api keys", "sha256")
        self.check_value = hmac.digest(secret, b"recourse check of the secret", "sha256").hex()
        self.ledger_secret = hmac.digest(secret, b"recourse ledger", "sha256")
        """What the chain over the ledger is keyed with; see app/ledger/chain.py."""
        self._fernet = Fernet(_fernet_key(secret))

    def make(self) -> NewKey:
        prefix = secrets.token_hex(PREFIX_LENGTH // 2)
        return self.describe(f"rk_{prefix}{secrets.token_urlsafe(32)}")

    def describe(self, text: str) -> NewKey:
        """What is kept of a key that the operator chose."""
        return NewKey(text, text.removeprefix("rk_")[:PREFIX_LENGTH], self.digest(text))

    def digest(self, text: str) -> str:
        return hmac.new(self._hash, text.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()

    def encrypt(self, text: str) -> str:
        return self._fernet.encrypt(text.encode()).decode()

    def is_older(self, token: str, seconds: float) -> bool:
        """Whether the text was encrypted longer ago."""
        return time.time() - self._fernet.extract_timestamp(token.encode()) > seconds

    def decrypt(self, token: str) -> str:
        try:
            return self._fernet.decrypt(token.encode()).decode()
        except InvalidToken as error:
            raise UnavailableError(
                "a stored credential cannot be decrypted: RECOURSE_KEY_SECRET is not the one that it was stored with"
            ) from error


WAYS_OUT = "restore it from the backup, or lose every key and stored credential with `recourse key accept-new-secret`"


def open_keyring(settings: Settings, database: Database) -> Keyring:
    """The keyring of RECOURSE_KEY_SECRET, else of VAR_DIR/secret.key, which is made for a database without keys.

    ConfigError where the secret is not the one that the keys in the database were made with.
    """
    path = settings.var_dir / SECRET_FILE
    # Looked for once more: a process that starts at the same time may just have made it, and a key.
    if settings.key_secret is None and not path.exists() and database.read(_has_keys) and not path.exists():
        raise ConfigError(f"{path} is missing, and the keys in the database were made with it: {WAYS_OUT}")
    keyring = read_keyring(settings)
    remembered = database.read(_remembered) or _remember(database, keyring)
    if remembered != keyring.check_value:
        where = f"the secret in {path}" if settings.key_secret is None else "RECOURSE_KEY_SECRET"
        raise ConfigError(f"{where} is not the one that the keys in the database were made with: {WAYS_OUT}")
    return keyring


def read_keyring(settings: Settings) -> Keyring:
    """The same, whatever the database remembers."""
    if settings.key_secret is not None:
        secret = settings.key_secret.get_secret_value().encode()
        if len(secret) < LEAST_SECRET:
            raise ConfigError(f"RECOURSE_KEY_SECRET has {len(secret)} characters: use {LEAST_SECRET} or more")
        return Keyring(secret)
    path = settings.var_dir / SECRET_FILE
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32))
    return Keyring(path.read_bytes().strip())


def replace_check_value(connection: Connection, keyring: Keyring) -> None:
    """Make the database expect this secret from now on."""
    connection.execute(delete(SecretCheck))
    insert_or_ignore(connection, SecretCheck, id=1, value=keyring.check_value)


def _has_keys(connection: Connection) -> bool:
    found = select(or_(exists(select(SecretCheck.id)), exists(select(ApiKey.id))))
    return bool(connection.execute(found).scalar_one())


def _remembered(connection: Connection) -> str | None:
    return connection.execute(select(SecretCheck.value)).scalar_one_or_none()


def _remember(database: Database, keyring: Keyring) -> str | None:
    """Store the check value unless there is one, and return the stored one: the first process to start decides."""
    with database.writing() as connection:
        insert_or_ignore(connection, SecretCheck, id=1, value=keyring.check_value)
        return _remembered(connection)


def write_private(path: Path, text: str) -> bool:
    """A new file that only its owner may read; False if it was there already, and is left as it is."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    try:
        # Unlike a rename, a link does not replace what another process has just made.
        os.link(partial, path)
    except FileExistsError:
        return False
    finally:
        partial.unlink()
    return True


def _fernet_key(secret: bytes) -> bytes:
    return base64.urlsafe_b64encode(hmac.digest(secret, b"recourse credentials", "sha256"))
