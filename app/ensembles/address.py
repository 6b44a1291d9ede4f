"""Which addresses may be called: the operator's list of hosts, then the addresses that they resolve to."""

import ipaddress
import string
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TypeAlias
from urllib.parse import urlsplit

from app.errors import EndpointError
from models.errors import ConfigError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

DEFAULT_PORTS = {"https": 443, "http": 80}
IPV6_PUBLIC = IPv6Network("2000::/3")
URL_CHARACTERS = frozenset(string.ascii_letters + string.digits + "-._~:/[]%")
"""No blanks, control characters, backslash, @, query or fragment: nothing that two parsers read in two ways."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an endpoint is, taken apart; `path` has no slash at its end."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def host_name(self) -> str:
        """The host as a URL writes it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def host_header(self) -> str:
        return self.host_name if self.port == DEFAULT_PORTS[self.scheme] else f"{self.host_name}:{self.port}"


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """What the operator allows; see RECOURSE_BLACKBOX_* in app/settings.py. Nothing by default."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    plain_http: bool = False

    @classmethod
    def parse(cls, hosts: Sequence[str], networks: Sequence[str], plain_http: bool) -> "AddressPolicy":
        """The policy of the operator's settings."""
        try:
            parsed = tuple(ipaddress.ip_network(network) for network in networks)
        except ValueError as error:
            raise ConfigError(f"RECOURSE_BLACKBOX_NETWORKS is not a list of networks: {error}") from error
        return cls(frozenset(host.lower().rstrip(".") for host in hosts), parsed, plain_http)

    def origin(self, url: str) -> Origin:
        """The URL taken apart, or EndpointError if it is not one that may be called."""
        strange = sorted(set(url) - URL_CHARACTERS)
        if strange:
            raise EndpointError(
                f"the endpoint's URL has the character {strange[0]!r}: write scheme://host:port/path only"
            )
        origin = take_apart(url)
        if origin.scheme == "http" and not self.plain_http:
            raise EndpointError(
                f"the endpoint {origin.host!r} is not https: the operator can allow it by RECOURSE_BLACKBOX_PLAIN_HTTP"
            )
        listed = {f"{origin.host}:{origin.port}"}
        if origin.port == DEFAULT_PORTS[origin.scheme]:
            listed.add(origin.host)
        if not listed & self.hosts:
            raise EndpointError(
                f"the host {origin.host}:{origin.port} is not in RECOURSE_BLACKBOX_HOSTS: the operator must add it"
            )
        return origin

    def pin(self, origin: Origin, addresses: Sequence[str]) -> Address:
        """The one address to connect to. A name is refused if any of its addresses is: a good one hides no bad one."""
        parsed = [ipaddress.ip_address(address) for address in addresses]
        if not parsed:
            raise EndpointError(f"the host {origin.host!r} resolves to no address: check the name")
        for address in parsed:
            if not self._allows(address):
                raise EndpointError(
                    f"the host {origin.host!r} resolves to {address}, which is not public: the operator must add "
                    f"{address}, or its network, to RECOURSE_BLACKBOX_NETWORKS"
                )
        return parsed[0]

    def _allows(self, address: Address) -> bool:
        return _is_public(address) or any(address in network for network in self.networks)


def take_apart(url: str) -> Origin:
    """Where a URL leads, or EndpointError if it cannot be told."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise EndpointError(f"the endpoint's URL cannot be read: {error}") from error
    if parts.scheme not in DEFAULT_PORTS:
        raise EndpointError(f"the endpoint's URL has the scheme {parts.scheme!r}: use https")
    host = (parts.hostname or "").rstrip(".")
    if not host or "%" in parts.netloc:
        raise EndpointError("the endpoint's URL names no host: write scheme://host:port/path")
    return Origin(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"))


def _is_public(address: Address) -> bool:
    """Reachable by everybody, and not an IPv4 address in disguise (mapped, 6to4, Teredo, NAT64)."""
    if isinstance(address, IPv6Address):
        disguised = address.ipv4_mapped or address.sixtofour or address.teredo
        return address in IPV6_PUBLIC and address.is_global and not disguised
    return address.is_global and not address.is_multicast and not address.is_reserved
