"""Settings as environment variables: what a spawned process reads to have the same ones."""

from pydantic import SecretStr

from app.settings import Settings

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
