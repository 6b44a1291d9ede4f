"""/docs: the page that lets a person try the calls, with its files from here and not from elsewhere."""

from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

FILES = "/docs/files"


def install(app: FastAPI) -> None:
    """Serve the page; like the document that it shows it needs no key, and tells nothing of any tenant."""
    app.mount(FILES, StaticFiles(directory=str(files("fastapi_offline") / "static")), name="docs files")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="recourse",
            swagger_js_url=f"{FILES}/swagger-ui-bundle.js",
            swagger_css_url=f"{FILES}/swagger-ui.css",
            swagger_favicon_url=f"{FILES}/favicon.png",
        )
