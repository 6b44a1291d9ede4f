"""API keys: how they are made, and what is kept of them. A key is rk_ + prefix + secret, 256 bits of chance in all."""

import base64
import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

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

    def decrypt(self, token: str) -> str:
        try:
            return self._fernet.decrypt(token.encode()).decode()
        except InvalidToken as error:
            raise UnavailableError(
                "a stored credential cannot be decrypted: RECOURSE_KEY_SECRET is not the one that it was stored with"
            ) from error


def open_keyring(settings: Settings) -> Keyring:
    """The keyring of RECOURSE_KEY_SECRET, else of VAR_DIR/secret.key, which is made if it is missing."""
    if settings.key_secret is not None:
        secret = settings.key_secret.get_secret_value().encode()
        if len(secret) < LEAST_SECRET:
            raise ConfigError(f"RECOURSE_KEY_SECRET has {len(secret)} characters: use {LEAST_SECRET} or more")
        return Keyring(secret)
    path = settings.var_dir / SECRET_FILE
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32))
    return Keyring(path.read_bytes().strip())


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
