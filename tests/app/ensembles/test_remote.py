"""Remote black boxes, against a server that behaves well or badly."""

import logging
import math
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from socket import gaierror

import numpy as np
import pytest
from pydantic import SecretStr

from app.concurrency import Deadline
from app.ensembles import blackbox
from app.ensembles.address import AddressPolicy
from app.ensembles.blackbox import BreakerPolicy, CircuitBreaker, RemoteBlackBox
from app.ensembles.endpoint import Endpoint, EndpointPool, Layout, Resolver
from app.ensembles.metered import BoxAnswer
from app.errors import EndpointError
from models.data.schema import Feature, FeatureKind, Schema
from models.errors import ConfigError, EnsembleError
from tests.fakes.endpoints import HostileServer, serving

HOST = "models.lender.test"
SECRET = "token-of-the-lender"
SCHEMA = Schema((Feature("income", FeatureKind.NUMERIC, 0.0, 9.0, 0.5),), "decision", ("refused", "approved"))
RECORDS = np.array([[1.0], [np.nan], [2.5]])


async def loopback(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with serving() as server:
        yield server


def policy_for(port: int) -> AddressPolicy:
    return AddressPolicy.parse([f"{HOST}:{port}"], ["127.0.0.0/8"], plain_http=True)


def endpoint(server: HostileServer, behaviour: str, seconds: float = 5.0) -> Endpoint:
    url = f"http://{HOST}:{server.port}"
    return Endpoint(url, behaviour, ("forest",), credential=SecretStr(SECRET), seconds=seconds, max_bytes=100_000)


@contextmanager
def opened(
    policy: AddressPolicy,
    *endpoints: Endpoint,
    breakers: BreakerPolicy | None = None,
    resolver: Resolver = loopback,
    tls: ssl.SSLContext | None = None,
) -> Iterator[RemoteBlackBox]:
    """A black box in a pool of its own."""
    with EndpointPool(policy, resolver, tls) as pool:
        yield RemoteBlackBox(SCHEMA, endpoints, pool, "lender", breakers)


def box_for(
    server: HostileServer, *endpoints: Endpoint, breakers: BreakerPolicy | None = None
) -> AbstractContextManager[RemoteBlackBox]:
    return opened(policy_for(server.port), *endpoints, breakers=breakers)


def put(
    box: RemoteBlackBox, members: tuple[int, ...] = (0,), records: np.ndarray = RECORDS, deadline: float = math.inf
) -> BoxAnswer:
    """What the members said, those to whom nothing could be sent among the missing; in the order of `members`."""
    ready = box.prepare(records, members, Deadline.after(deadline))
    probabilities, missing = np.full((len(members), len(records), 2), np.nan), ready.missing
    if ready.members:
        answer = ready.ask()
        probabilities[[members.index(m) for m in ready.members]] = answer.probabilities
        missing += answer.missing
    return BoxAnswer(probabilities, missing)


def ask(server: HostileServer, behaviour: str, seconds: float = 5.0, deadline: float = 10.0) -> BoxAnswer:
    with box_for(server, endpoint(server, behaviour, seconds)) as box:
        return put(box, deadline=deadline)


@pytest.mark.parametrize("behaviour", ["good", "nested", "slow"])
def test_a_good_answer(server: HostileServer, behaviour: str) -> None:
    answer = ask(server, behaviour)
    assert answer.missing == ()
    np.testing.assert_array_equal(answer.probabilities, np.full((1, 3, 2), [0.25, 0.75]))
    assert server.requests == [(f"/v2/models/{behaviour}/infer", f"Bearer {SECRET}")]


@pytest.mark.parametrize(
    ("behaviour", "reason", "passing"),
    [
        ("status_500", "status 500", True),
        ("status_404", "status 404", False),
        ("redirect", "redirect", False),
        ("compressed", "compressed", False),
        ("oversized", "announced 1000000000000 bytes", False),
        ("endless", "more than the 100000 bytes", False),
        ("garbage", "not JSON", False),
        ("deep", "not JSON", False),
        ("no_outputs", "list of outputs", False),
        ("one_missing", "no float output 'predict_proba' of shape", False),
        ("transposed", "no float output", False),
        ("short", "no float output", False),
        ("text", "no float output", False),
        ("huge", "no float output", False),
        ("odd_type", "no float output", False),
    ],
)
def test_a_bad_answer_is_a_missing_vote(server: HostileServer, behaviour: str, reason: str, passing: bool) -> None:
    answer = ask(server, behaviour)
    (vote,) = answer.missing
    assert (vote.member, vote.passing) == ("forest", passing)
    assert reason in vote.reason
    assert np.isnan(answer.probabilities).all()
    assert len(server.requests) == 1, "a redirect is not followed"


@pytest.mark.parametrize("behaviour", ["drip", "drip_headers", "silence"])
@pytest.mark.parametrize(("seconds", "deadline"), [(0.4, 60.0), (60.0, 0.4)])
def test_the_whole_call_has_a_time_limit(
    server: HostileServer, behaviour: str, seconds: float, deadline: float
) -> None:
    """Its own, or what the request has left, whichever is shorter; however busily the server drips."""
    began = time.monotonic()
    answer = ask(server, behaviour, seconds, deadline)
    assert 0.3 < time.monotonic() - began < 30.0
    assert [(vote.reason, vote.passing) for vote in answer.missing] == [("took too long", True)]


def test_nobody_listens(server: HostileServer) -> None:
    url = f"http://{HOST}:1"
    with opened(policy_for(1), Endpoint(url, "m", ("forest",))) as box:
        (vote,) = put(box).missing
    assert (vote.reason, vote.passing) == ("could not be reached (ConnectError)", True)


def test_endpoints_are_asked_at_the_same_time_and_only_for_who_is_wanted(server: HostileServer) -> None:
    url = f"http://{HOST}:{server.port}"
    several = Endpoint(url, "together", ("a", "b"))
    others = tuple(Endpoint(url, "together", (name,)) for name in ("c", "d", "e"))
    with box_for(server, several, *others) as box:
        answer = put(box, (4, 1, 2))
    assert (answer.probabilities.shape, answer.missing) == ((3, 3, 2), ())
    assert len(server.requests) == 3


def test_one_endpoint_for_all_that_forgets_a_member(server: HostileServer) -> None:
    several = Endpoint(f"http://{HOST}:{server.port}", "one_missing", ("a", "b"))
    with box_for(server, several) as box:
        answer = put(box, (0, 1))
    assert [vote.member for vote in answer.missing] == ["a"]
    assert np.isnan(answer.probabilities).any(axis=(1, 2)).tolist() == [True, False]


def reached(box: RemoteBlackBox) -> tuple[int, ...]:
    return box.prepare(RECORDS, (0,), Deadline.never()).members


def test_a_failing_endpoint_rests_and_comes_back(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(blackbox, "CircuitBreaker", partial(CircuitBreaker, clock=lambda: now[0]))
    server.behaviour = "status_500"
    breakers = BreakerPolicy(threshold=2, cooldown=30.0)
    url = f"http://{HOST}:{server.port}"
    with box_for(server, Endpoint(url, "m", ("forest",)), breakers=breakers) as box:
        for _ in range(2):
            assert reached(box) == (0,)
            put(box)
        assert reached(box) == ()
        (vote,) = put(box).missing
        assert ("rests" in vote.reason, len(server.requests)) == (True, 2)
        now[0] += 30.0
        put(box)
        assert (reached(box), len(server.requests)) == ((), 3), "one failed try, and it rests again"
        now[0] += 30.0
        server.behaviour = "good"
        assert put(box).missing == ()
        assert reached(box) == (0,)


def test_the_credential_is_in_no_log_and_no_text(server: HostileServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = ask(server, "status_500")
    assert server.requests[0][1] == f"Bearer {SECRET}"
    assert caplog.records, "httpx logs at this level, so an empty log would prove nothing"
    shown = [*(record.getMessage() for record in caplog.records), repr(answer), repr(endpoint(server, "good"))]
    assert not any(SECRET in text for text in shown)
    assert "the secret token" not in repr(answer), "a server's words do not travel further either"


def test_a_name_that_changes_its_address_is_caught(server: HostileServer) -> None:
    """The address that was checked is the one that is connected to, and the next call checks again."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    with opened(policy_for(server.port), endpoint(server, "good"), resolver=rebinding) as box:
        assert put(box).missing == ()
        assert asked == [HOST], "one resolution a call: there is no second one to lie in"
        (vote,) = put(box).missing
    assert ("10.0.0.1, which is not public" in vote.reason, vote.passing) == (True, False)
    assert len(server.requests) == 1


def test_proxies_of_the_environment_are_ignored(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert ask(server, "good").missing == ()


def test_wrong_endpoints_are_refused_at_once(server: HostileServer) -> None:
    refused, pool = Endpoint("http://elsewhere.example", "m", ("forest",)), EndpointPool(policy_for(server.port))
    with pytest.raises(
        EndpointError, match=r"elsewhere.example:80 is not in RECOURSE_BLACKBOX_HOSTS: the operator must add it"
    ):
        RemoteBlackBox(SCHEMA, (refused,), pool)
    with pytest.raises(ConfigError, match="two endpoints answer for one member"):
        RemoteBlackBox(SCHEMA, (endpoint(server, "good"), endpoint(server, "slow")), pool)
    with pytest.raises(ConfigError, match="no member"):
        Endpoint("https://x", "m", ())
    with pytest.raises(ConfigError, match="2 members, but 1 outputs"):
        Endpoint("https://x", "m", ("a", "b"), ("a",))


def test_a_model_name_stays_inside_its_path(server: HostileServer) -> None:
    server.behaviour = "good"
    ask(server, "../../admin?x=")
    assert server.requests[0][0] == "/v2/models/..%2F..%2Fadmin%3Fx%3D/infer"


def test_an_infinite_number_is_not_sent(server: HostileServer) -> None:
    url = f"http://{HOST}:{server.port}"
    with box_for(server, Endpoint(url, "good", ("forest",), layout=Layout.MATRIX)) as box:
        with pytest.raises(EnsembleError, match="infinite"):
            put(box, records=np.array([[np.inf]]))
        assert put(box).missing == ()
        assert reached(box) == (0,)
    assert len(server.requests) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with key.pem and cert.pem for HOST."""
    folder = tmp_path_factory.mktemp("tls")
    subject = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command, *subject, *files], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(("host", "answers"), [(HOST, True), ("other.lender.test", False)])
def test_tls_checks_the_name_although_the_address_is_pinned(certificate: Path, host: str, answers: bool) -> None:
    serving_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving_side.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    trusting = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    with serving(serving_side) as server:
        policy = AddressPolicy.parse([f"{host}:{server.port}"], ["127.0.0.0/8"], plain_http=False)
        secure = Endpoint(f"https://{host}:{server.port}", "good", ("forest",))
        with opened(policy, secure, tls=trusting) as box:
            answer = put(box)
    assert (answer.missing == ()) is answers


def one(income: float) -> np.ndarray:
    return np.array([[income]])


def test_a_connection_is_kept_where_the_id_comes_back(server: HostileServer) -> None:
    with box_for(server, endpoint(server, "mirror")) as box:
        for income in (1.0, 2.0, 3.0):
            assert put(box, records=one(income)).probabilities[0, 0, 1] == pytest.approx(income / 10)
    assert (len(server.requests), server.connections) == (3, 2), "the first answer shows that it does"


def test_a_server_that_gives_no_id_back_gets_new_connections(server: HostileServer) -> None:
    with box_for(server, endpoint(server, "nameless")) as box:
        for income in (1.0, 2.0, 3.0):
            assert put(box, records=one(income)).probabilities[0, 0, 1] == pytest.approx(income / 10)
    assert (len(server.requests), server.connections) == (3, 3)


def test_the_answer_to_another_request_is_none(server: HostileServer) -> None:
    (vote,) = ask(server, "foreign").missing
    assert (vote.reason, vote.passing) == ("answered with the id of another request", True)


def test_an_answer_without_an_id_does_not_count_on_a_kept_connection(server: HostileServer) -> None:
    with box_for(server, endpoint(server, "mirror")) as box:
        put(box), put(box)
        server.behaviour = "nameless"
        (vote,) = put(box).missing
        assert "without the request's id on a connection that was used before" in vote.reason
        assert put(box).missing == (), "from here on each call has a connection of its own"


def test_a_call_that_cannot_be_sent_is_told_before_it_is_charged(server: HostileServer) -> None:
    """Nobody was asked, so there is nothing to ask: who would pay for it does so in between."""

    async def unknown(host: str, port: int) -> list[str]:
        raise gaierror

    async def inside(host: str, port: int) -> list[str]:
        return ["10.0.0.1"]

    for resolver, reason, passing in (
        (unknown, "the name of its host cannot be resolved", True),
        (inside, "must add 10.0.0.1, or its network, to RECOURSE_BLACKBOX_NETWORKS", False),
    ):
        with opened(policy_for(server.port), endpoint(server, "good"), resolver=resolver) as box:
            ready = box.prepare(RECORDS, (0,), Deadline.never())
        (vote,) = ready.missing
        assert (ready.members, vote.passing) == ((), passing)
        assert reason in vote.reason
    assert server.requests == []
