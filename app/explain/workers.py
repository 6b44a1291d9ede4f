"""The workers behind a name: `worker` in a compose file or a headless service has one address for each of them.

A client that connects to the name would reach whichever comes first; we want them all, and to notice when they change.
"""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Sequence

import httpx
import structlog

RESOLVE_SECONDS = 3.0
logger = structlog.get_logger("recourse.explain")


class Addresses:
    """URLs with every address of their hosts, looked up anew now and then. It is used on one event loop."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._given = [url.rstrip("/") for url in urls]
        self._found: dict[str, list[str]] = {url: [url] for url in self._given}
        self._due = float("-inf")
        self._lookup: asyncio.Task[None] | None = None

    async def current(self) -> list[str]:
        """Each URL once. Only the first caller waits for the lookup; later ones take what is known meanwhile."""
        if time.monotonic() >= self._due:
            first = self._due == float("-inf")
            self._due = time.monotonic() + RESOLVE_SECONDS
            self._lookup = asyncio.create_task(self._look_up())
            if first:
                await asyncio.shield(self._lookup)
        return list(dict.fromkeys(url for given in self._given for url in self._found[given]))

    async def close(self) -> None:
        if self._lookup is not None:
            self._lookup.cancel()
            await asyncio.gather(self._lookup, return_exceptions=True)

    async def _look_up(self) -> None:
        for url in self._given:
            try:
                self._found[url] = await _addressed(url)
            except OSError as error:
                # A name server that is away takes no worker with it: what was found before is kept.
                logger.warning("worker's name not found", url=url, reason=str(error))


async def _addressed(url: str) -> list[str]:
    """The URL with each address instead of the name. With TLS the name stays: the certificate is for that."""
    parsed = httpx.URL(url)
    if parsed.scheme != "http" or _is_address(parsed.host):
        return [url]
    port = parsed.port or 80
    found = await asyncio.get_running_loop().getaddrinfo(parsed.host, port, type=socket.SOCK_STREAM)
    addresses = sorted({str(address[0]) for *_, address in found})
    return [str(parsed.copy_with(host=address, port=port)).rstrip("/") for address in addresses]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
