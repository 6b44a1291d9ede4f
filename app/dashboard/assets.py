"""Style sheets, scripts and pictures, and Plotly from its Python package: each address holds a hash of the content."""

import gzip
import hashlib
import mimetypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, Response

STATIC = Path(__file__).parent / "static"
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
PLOTLY_NAME = "plotly.min.js"

router = APIRouter(include_in_schema=False)


@router.get("/assets/{digest}/{name}")
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
