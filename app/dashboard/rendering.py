"""Templates with their filters, the headers of every page, and its assets under addresses that hold a hash.

Nothing is inline, nothing comes from another host, nothing may be framed.
"""

import gzip
import hashlib
import mimetypes
from collections.abc import Callable
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

STATIC = Path(__file__).parent / "static"
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
PLOTLY_NAME = "plotly.min.js"

assets_router = APIRouter(include_in_schema=False)


@assets_router.get("/assets/{digest}/{name}")
def asset(digest: str, name: str, request: Request) -> Response:
    """A file under its present hash. Any other hash is of an older release: it is not here."""
    path = plotly_file() if name == PLOTLY_NAME else _own().get(name)
    if path is None or digest != (plotly_digest() if name == PLOTLY_NAME else own_digest()):
        raise HTTPException(404, f"there is no {name!r} of this release: load the page again")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    headers = FOREVER | {"Vary": "Accept-Encoding"}
    if kind.startswith(("text/", "image/svg")) and "gzip" in request.headers.get("Accept-Encoding", ""):
        return Response(_packed(path), headers=headers | {"Content-Encoding": "gzip"}, media_type=kind)
    return Response(path.read_bytes(), headers=headers, media_type=kind)


def asset_url(name: str) -> str:
    """For templates."""
    return f"/assets/{plotly_digest() if name == PLOTLY_NAME else own_digest()}/{name}"


@cache
def own_digest() -> str:
    """One hash for all of our own: scripts import each other by relative names."""
    parts = (name.encode() + path.read_bytes() for name, path in sorted(_own().items()))
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


@cache
def plotly_digest() -> str:
    return hashlib.sha256(plotly_file().read_bytes()).hexdigest()[:16]


@cache
def plotly_file() -> Path:
    """Found without importing the package, which takes a while."""
    spec = find_spec("plotly")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "package_data" / PLOTLY_NAME


@cache
def _own() -> dict[str, Path]:
    return {path.name: path for path in STATIC.iterdir() if path.is_file()}


@cache
def _packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), 6)


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
    """A feature's value as its owner writes it; a missing one is said to be."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.10g}" if value != int(value) else f"{int(value):,}"
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
_templates.globals.update(asset=asset_url, plotly_url=lambda: asset_url(PLOTLY_NAME))


def render(template: str, values: dict[str, object], status: int = 200) -> Response:
    """A page."""
    return HTMLResponse(_templates.get_template(template).render(values), status, HEADERS)
