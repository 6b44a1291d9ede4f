"""Settings: environment variables with the prefix RECOURSE_, read once in `main`, never at import.

A secret may be in a file that RECOURSE_..._FILE names: RECOURSE_KEY_SECRET_FILE=/run/secrets/key_secret.

`environment_of` turns them back into variables, so that a process that is started here has the same ones.
"""

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from models.errors import ConfigError


class Settings(BaseSettings):
    """What the operator decides. Lists are written with commas."""

    model_config = SettingsConfigDict(env_prefix="RECOURSE_", frozen=True, env_ignore_empty=True)

    var_dir: Path = Path("var")
    database_url: SecretStr | None = None
    redis_url: SecretStr | None = None
    explainer_url: str | None = None
    artifacts_url: str | None = None
    data: Path | None = None
    admin_key: SecretStr | None = None
    """The first admin key of the default tenant; without it one is made and kept in VAR_DIR/admin.key."""
    key_secret: SecretStr | None = None
    """What keys are hashed with and credentials encrypted: the same for the API and every worker.

    Without it one is made and kept in VAR_DIR/secret.key, which is enough where all of them share VAR_DIR.
    """
    metrics_key: SecretStr | None = None
    """What an operator's Prometheus shows at /metrics to see all of the process and all tenants."""
    worker_key: SecretStr | None = None
    """What the API shows to a worker's explainer, and what the worker asks for."""
    device: str = "cpu"
    log_format: Literal["console", "json"] = "console"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    blackbox_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Hosts, or host:port, that a remote black box may have; none by default."""
    blackbox_networks: Annotated[tuple[str, ...], NoDecode] = ()
    """Private networks, as 10.1.0.0/16, that those hosts may resolve into; none by default."""
    blackbox_plain_http: bool = False
    """Whether a remote black box may be called without TLS."""

    budget_lease_seconds: int = Field(default=900, gt=0)
    """How long a reservation lives after its owner's last sign of life."""

    default_budget: int = Field(default=100_000, ge=0)
    """Queries that an ensemble which the service trained itself may be asked, if nobody sets a limit."""

    max_body_bytes: int = Field(default=16 * 2**20, gt=0)
    max_upload_bytes: int = Field(default=512 * 2**20, gt=0)
    """The largest data set, as it is sent."""
    max_dataset_rows: int = Field(default=2_000_000, gt=0)
    max_dataset_columns: int = Field(default=500, gt=0)
    max_records: int = Field(default=1_000, gt=0)
    """Records in one request to explain, verify or predict."""
    max_queued_jobs: int = Field(default=20, gt=0)
    """Unfinished training jobs of one tenant."""
    max_streams: int = Field(default=50, gt=0)
    """Live streams that one tenant may have open at each process of the API."""

    serve_host: str = "127.0.0.1"
    """Where the API listens, unless `recourse serve` is told otherwise."""
    serve_port: int = Field(default=8000, ge=0, le=65535)
    explainer_host: str = "127.0.0.1"
    """Where a worker's explainer listens; anything but the loopback needs RECOURSE_WORKER_KEY."""
    explainer_port: int = Field(default=8100, ge=0, le=65535)
    explain_queue: int = Field(default=4_096, gt=0)
    """Records that may wait in an explainer; a request that would pass this is told to come back."""
    explain_batch: int = Field(default=64, gt=0)
    """Records that an explainer searches for together."""
    explain_wait_ms: float = Field(default=2.0, ge=0)
    """How long an explainer waits for more records to search together."""
    explain_threads: int = Field(default=1, gt=0)
    """Batches that an explainer runs at the same time."""
    resident_models: int = Field(default=4, gt=0)
    """Model versions that an explainer keeps in memory."""
    deadline_ms: int = Field(default=30_000, gt=0)
    """How long a request may take that names no deadline of its own."""
    max_deadline_ms: int = Field(default=300_000, gt=0)

    job_lease_seconds: int = Field(default=30, gt=0)
    """How long a trainer may be silent before another one takes its job over."""
    job_silence_seconds: float = Field(default=120.0, gt=0)
    """How long a training may give no sign of life before its trainer ends its process, and goes on in another."""
    job_attempts: int = Field(default=5, gt=0)
    """How often a job is begun or resumed before it is given up."""
    checkpoint_seconds: float = Field(default=10.0, gt=0)
    """How much training a killed trainer loses at most, about."""

    idempotency_hours: int = Field(default=24, gt=0)
    """How long the answer to an Idempotency-Key is kept."""
    idempotency_open_seconds: int = Field(default=60, gt=0)
    """How long after its process's last sign of life a request under an Idempotency-Key may be tried again."""
    key_cache_seconds: float = Field(default=5.0, ge=0)
    """How long a key is trusted without a look into the database: a revoked key works at most this much longer."""
    min_free_bytes: int = Field(default=200 * 2**20, ge=0)
    """With less free space in VAR_DIR than this the service is not ready."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then the files that it names."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, _from_files(cls._secrets()))

    @classmethod
    def _secrets(cls) -> list[str]:
        return [name for name, field in cls.model_fields.items() if field.annotation == SecretStr | None]

    @field_validator("blackbox_hosts", "blackbox_networks", mode="before")
    @classmethod
    def split_at_commas(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @model_validator(mode="wrap")
    @classmethod
    def in_one_sentence(cls, values: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """The settings, or a ConfigError that names those that make no sense; secrets have no wrong form."""
        try:
            return handler(values)
        except ValidationError as error:
            wrong = [(f"RECOURSE_{str(one['loc'][0]).upper()}", one["msg"], one["input"]) for one in error.errors()]
            told = "; ".join(f"{name} is {str(value)[:100]!r}: {message.lower()}" for name, message, value in wrong)
            raise ConfigError(f"{told}; see .env.example, or leave it out for its default") from error

    @property
    def embedded(self) -> bool:
        """Whether training and explaining happen on this machine, without Redis and workers."""
        return self.redis_url is None and self.explainer_url is None

    @property
    def database(self) -> str:
        """The database's URL: Postgres if one was given, else SQLite in VAR_DIR."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.var_dir / 'recourse.db'}"


OTHERS = re.compile(
    # Of the command line, compose, our tests and benchmarks; and what Kubernetes sets for a service called recourse.
    r"RECOURSE_(KEY|PUBLISH|DATA|KILLS|EXPLAINER_KILLS|WRITE_SURFACE|REQUIRE_BROWSER|TEST_.*|SERVICE_(HOST|PORT.*)|PORT(_\d.*)?)"
)


def unknown_names(environment: Iterable[str]) -> list[str]:
    """A sentence for each variable that looks like a setting and is none, with the setting that it may stand for.

    They are told and not refused: who else calls a service `recourse` may have variables of that name.
    """
    known = [f"RECOURSE_{name.upper()}" for name in Settings.model_fields]
    known += [f"RECOURSE_{name.upper()}_FILE" for name in Settings._secrets()]
    told = list[str]()
    for name in sorted(environment):
        if name.upper().startswith("RECOURSE_") and name.upper() not in known and not OTHERS.fullmatch(name.upper()):
            near = get_close_matches(name.upper(), known, 1, cutoff=0.8)
            told.append(f"{name} is no setting and is ignored: " + (f"is {near[0]} meant?" if near else "take it out"))
    return told


def _from_files(names: list[str]) -> dict[str, str]:
    """The secrets whose value is in no variable of their own, but in a file."""
    found: dict[str, str] = {}
    for name in names:
        variable = f"RECOURSE_{name.upper()}"
        path = os.environ.get(f"{variable}_FILE")
        if not path or os.environ.get(variable):
            continue
        try:
            found[name] = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{variable}_FILE names {path}, which cannot be read: {error}") from error
        if not found[name]:
            raise ConfigError(f"{variable}_FILE names {path}, which is empty: write the secret into it")
    return found


ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The small networks and models of the method are slower with more: their threads wait for each other."""


def environment_of(settings: Settings) -> dict[str, str]:
    """RECOURSE_... for each setting that has a value."""
    named = {f"RECOURSE_{name.upper()}": getattr(settings, name) for name in type(settings).model_fields}
    return ONE_THREAD | {name: _text(value) for name, value in named.items() if value is not None}


def _text(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
