"""Templates, and the headers of every page: nothing inline, nothing from another host, no frames."""

from pathlib import Path

from fastapi import Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.dashboard.assets import PLOTLY_NAME, asset_url
from app.dashboard.wording import FILTERS

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
