"""Server-side request forgery: each way in is refused."""

import pytest

from app.ensembles.address import AddressPolicy, Origin
from app.errors import EndpointError
from models.errors import ConfigError

HOST = "models.lender.example"
POLICY = AddressPolicy.parse([HOST, f"{HOST}:8443", "10.1.2.3"], ["10.1.0.0/16"], plain_http=False)


def test_what_is_allowed() -> None:
    assert POLICY.origin(f"https://{HOST}/scores/") == Origin("https", HOST, 443, "/scores")
    assert POLICY.origin(f"https://{HOST.upper()}.:8443").port == 8443
    assert POLICY.origin(f"https://{HOST}:8443").host_header == f"{HOST}:8443"
    assert POLICY.origin(f"https://{HOST}").host_header == HOST


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (f"http://{HOST}", "not https"),
        ("file:///etc/passwd", "scheme 'file'"),
        (f"ftp://{HOST}/x", "scheme 'ftp'"),
        (f"gopher://{HOST}/x", "scheme 'gopher'"),
        ("data:text/plain,x", "','"),
        (f"{HOST}/x", "scheme ''"),
        ("https:///x", "no host"),
        (f"https://user:secret@{HOST}", "'@'"),
        (f"https://{HOST}@169.254.169.254", "'@'"),
        (f"https://{HOST}?x=1", "'='"),
        (f"https://{HOST}#x", "'#'"),
        (f"https://{HOST}\\@evil.example", r"'@'|'\\\\'"),
        (f"https://{HOST}\n", r"'\\n'"),
        (f"https://{HOST}%00.evil.example", "no host"),
        (f"https://{HOST}:99999", "cannot be read"),
        (f"https://{HOST}:8080", r"example:8080 is not in RECOURSE_BLACKBOX_HOSTS"),
        (f"https://{HOST}.evil.example", "not in RECOURSE_BLACKBOX_HOSTS"),
        (f"https://evil.{HOST}", "not in RECOURSE_BLACKBOX_HOSTS"),
        ("https://127.0.0.1", "not in RECOURSE_BLACKBOX_HOSTS"),
        ("https://2130706433", "not in RECOURSE_BLACKBOX_HOSTS"),
        ("https://[::1]", "not in RECOURSE_BLACKBOX_HOSTS"),
        ("https://lend\u0435r.example", "character"),
    ],
)
def test_urls_that_are_refused(url: str, why: str) -> None:
    with pytest.raises(EndpointError, match=why) as refusal:
        POLICY.origin(url)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fec0::1",
        "ff0e::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    ],
)
def test_addresses_that_are_refused(address: str) -> None:
    """Alone, and hidden behind a good one."""
    origin = POLICY.origin(f"https://{HOST}")
    for answers in ([address], ["93.184.216.34", address], [address, "93.184.216.34"]):
        with pytest.raises(EndpointError, match="which is not public"):
            POLICY.pin(origin, answers)


def test_addresses_that_are_allowed() -> None:
    origin = POLICY.origin(f"https://{HOST}")
    assert str(POLICY.pin(origin, ["93.184.216.34", "2606:2800:220:1::1"])) == "93.184.216.34"
    assert str(POLICY.pin(origin, ["10.1.2.3"])) == "10.1.2.3", "the operator allowed this network"
    with pytest.raises(EndpointError, match="resolves to no address"):
        POLICY.pin(origin, [])


def test_nothing_is_allowed_by_default() -> None:
    with pytest.raises(EndpointError, match="not in RECOURSE_BLACKBOX_HOSTS"):
        AddressPolicy().origin(f"https://{HOST}")
    with pytest.raises(ConfigError, match="RECOURSE_BLACKBOX_NETWORKS"):
        AddressPolicy.parse([], ["10.0.0.1/8"], plain_http=False)
