"""Templates with their filters, the headers of every page, and its assets under addresses that hold a hash.

Nothing is inline, nothing comes from another host, nothing may be framed.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"
PLOTLY = "plotly.min.js"


class Assets(StaticFiles):
    """Files that never change at their address, which holds a hash of them: browsers keep them for a year."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def mount_assets(app: FastAPI) -> None:
    """Our own files, and Plotly from its package. Under any other hash, as of an older release, there is nothing."""
    for folder, digest in ((STATIC, own_digest()), (plotly_folder(), plotly_digest())):
        app.mount(f"/assets/{digest}", GZipMiddleware(Assets(directory=folder), compresslevel=6))


def asset_url(name: str) -> str:
    """For templates."""
    return f"/assets/{plotly_digest() if name == PLOTLY else own_digest()}/{name}"


@cache
def own_digest() -> str:
    """One hash for all of our own: scripts import each other by relative names."""
    parts = (path.name.encode() + path.read_bytes() for path in sorted(STATIC.iterdir()) if path.is_file())
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


@cache
def plotly_digest() -> str:
    return hashlib.sha256((plotly_folder() / PLOTLY).read_bytes()).hexdigest()[:16]


def plotly_folder() -> Path:
    """Found without importing the package, which takes a while."""
    spec = find_spec("plotly")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "package_data"


STATUS_WORDS = {
    "robust": "Checked: enough of the lender's models accept",
    "valid": "Likely, but not confirmed for as many models as asked",
    "already_target": "Nothing needs to change",
    "infeasible": "No change within these limits is enough",
    "error": "The record could not be read",
}


def plain_name(name: str) -> str:
    """credit_history_months -> Credit history months"""
    words = name.replace("_", " ").replace(".", " ").strip()
    return words[:1].upper() + words[1:]


def plain_value(value: object) -> str:
    """A feature's value as its owner writes it, with all its digits; a missing one is said to be."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.15g}" if value != int(value) else f"{int(value):,}"
    return str(value)


def percent(value: float | None) -> str:
    return "not asked" if value is None else f"{100 * value:.0f}%"


def day_and_time(value: datetime) -> str:
    return value.strftime("%-d %B %Y, %H:%M UTC")


def status_word(status: str) -> str:
    return STATUS_WORDS.get(status, status)


FILTERS: dict[str, Callable[..., str]] = {
    "plain_name": plain_name,
    "plain_value": plain_value,
    "percent": percent,
    "day_and_time": day_and_time,
    "status_word": status_word,
}


POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Accept, Cookie",
}

_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(FILTERS)
_templates.globals.update(asset=asset_url, plotly_url=lambda: asset_url(PLOTLY))


def render(template: str, values: dict[str, object], status: int = 200) -> Response:
    """A page."""
    return HTMLResponse(_templates.get_template(template).render(values), status, HEADERS)
