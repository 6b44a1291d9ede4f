"""A page and the JSON beside it share an address: whoever asks for HTML, as a browser does, gets the page."""

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Scope

from app.api.dependencies import authenticate
from app.errors import AuthenticationError

SEE_OTHER = 303


class PageRoute(APIRoute):
    """Matches only requests for HTML; shows the door to those who are not signed in."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("Accept", ""):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            try:
                await authenticate(request)
            except AuthenticationError:
                return RedirectResponse(f"/sign-in?next={quote(request.url.path)}", SEE_OTHER)
            return await handle(request)

        return checked
