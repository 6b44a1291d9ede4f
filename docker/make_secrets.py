"""The secrets of docker-compose.yml: `python3 make_secrets.py FOLDER`, before anything else, at every start.

A secret that is given in the environment wins, else the one that is in the folder already, else a new one is made.
Postgres and Redis are in the files' group and may read their own password; the others are for the service's user.
"""

import os
import secrets
import sys
from pathlib import Path
from urllib.parse import quote

DATABASE = "postgresql://recourse:{}@postgres:5432/recourse"
REDIS = "redis://:{}@redis:6379/0"
PASSWORDS = {"postgres_password": "POSTGRES_PASSWORD", "redis_password": "REDIS_PASSWORD"}
KEYS = {"key_secret": "RECOURSE_KEY_SECRET", "worker_key": "RECOURSE_WORKER_KEY"}


def main(folder: Path) -> None:
    found = {name: _secret(folder / name, given) for name, given in (PASSWORDS | KEYS).items()}
    addresses = {
        "database_url": os.environ.get("RECOURSE_DATABASE_URL")
        or DATABASE.format(quote(found["postgres_password"], "")),
        "redis_url": os.environ.get("RECOURSE_REDIS_URL") or REDIS.format(quote(found["redis_password"], "")),
    }
    for name, text in (found | addresses).items():
        _write(folder / name, text, 0o640 if name in PASSWORDS else 0o600)
    where = "the one in RECOURSE_ADMIN_KEY"
    if not os.environ.get("RECOURSE_ADMIN_KEY"):
        where = "in a file: docker compose exec api cat /var/lib/recourse/admin.key"
    sys.stdout.write(f"The secrets are in {folder}: keep a copy.\nThe first admin key is {where}\n")


def _secret(path: Path, given: str) -> str:
    if os.environ.get(given):
        return os.environ[given]
    return path.read_text(encoding="utf-8").strip() if path.exists() else secrets.token_hex(32)


def _write(path: Path, text: str, mode: int) -> None:
    """All of it or nothing, and never readable for others, not for a moment."""
    partial = path.with_name(f".{path.name}")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, mode)
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
