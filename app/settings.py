"""Settings: environment variables with the prefix RECOURSE_. Built in `main`, never at import."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class Settings(BaseSettings):
    """What the operator decides. Lists are written with commas."""

    model_config = SettingsConfigDict(env_prefix="RECOURSE_", frozen=True)

    var_dir: Path = Path("var")
    database_url: SecretStr | None = None
    redis_url: SecretStr | None = None
    explainer_url: str | None = None
    artifacts_url: str | None = None
    data: Path | None = None
    admin_key: SecretStr | None = None
    device: str = "cpu"
    log_format: Literal["console", "json"] = "console"

    blackbox_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Hosts, or host:port, that a remote black box may have; none by default."""
    blackbox_networks: Annotated[tuple[str, ...], NoDecode] = ()
    """Private networks, as 10.1.0.0/16, that those hosts may resolve into; none by default."""
    blackbox_plain_http: bool = False
    """Whether a remote black box may be called without TLS."""

    budget_lease_seconds: int = Field(default=900, gt=0)
    """How long a reservation lives after its owner's last sign of life."""

    @field_validator("blackbox_hosts", "blackbox_networks", mode="before")
    @classmethod
    def split_at_commas(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @property
    def database(self) -> str:
        """The database's URL: Postgres if one was given, else SQLite in VAR_DIR."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.var_dir / 'recourse.db'}"
