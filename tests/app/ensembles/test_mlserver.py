"""The whole way: metered, over the network, to a server that others wrote."""

from collections.abc import Iterator

import numpy as np
import pytest

from app.concurrency import Deadline
from app.db.engine import Database
from app.ensembles.address import AddressPolicy
from app.ensembles.blackbox import RemoteBlackBox
from app.ensembles.bought import AnswerOwner
from app.ensembles.endpoint import Endpoint, EndpointPool
from app.ensembles.meter import EnsembleMeter
from app.ledger.ledger import Ledger
from models.data.schema import Feature, FeatureKind, Schema
from tests.app.conftest import Customer
from tests.app.ensembles.mlserver.server import mlserver
from tests.fakes.ensembles import CLASSES, MEMBERS, formula

SCHEMA = Schema(
    (
        Feature("income", FeatureKind.NUMERIC, -3.0, 3.0, 0.001, nullable=True),
        Feature("purpose", FeatureKind.CATEGORICAL, categories=("car", "house", "study")),
        Feature("late_payments", FeatureKind.INTEGER, 0.0, 5.0),
        Feature("children", FeatureKind.INTEGER, 0.0, 5.0, nullable=True),
    ),
    "decision",
    CLASSES,
)
RECORDS = np.array([[0.125, 0.0, 1.0, 2.0], [np.nan, 1.0, 0.0, 1.0], [-2.5, 2.0, 5.0, np.nan]])


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with mlserver(tmp_path_factory.mktemp("mlserver")) as port:
        yield port


def endpoints(layout: str, url: str) -> tuple[Endpoint, ...]:
    if layout == "one for all":
        return (Endpoint(url, "all", MEMBERS),)
    return tuple(Endpoint(url, name, (name,)) for name in MEMBERS)


@pytest.mark.parametrize("layout", ["one for all", "one each"])
def test_votes_come_from_mlserver(
    port: int, layout: str, database: Database, ledger: Ledger, customer: Customer
) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    policy = AddressPolicy.parse([f"localhost:{port}"], ["127.0.0.0/8", "::1/128"], plain_http=True)
    owner = AnswerOwner(customer.tenant_id, customer.ensemble_id, "1")
    urls = endpoints(layout, f"http://localhost:{port}")
    with (
        EndpointPool(policy) as pool,
        EnsembleMeter.remote(SCHEMA, urls, pool, database, ledger, owner).open(maximum=5) as ensemble,
    ):
        answer = ensemble.ask(RECORDS)
        again = ensemble.ask(RECORDS)
    assert (answer.missing, answer.charged, again.charged) == ((), 3, 0)
    np.testing.assert_allclose(answer.probabilities, formula(RECORDS), rtol=1e-12)
    assert ledger.balance(customer.tenant_id, customer.ensemble_id).used == 3


def test_a_model_that_mlserver_does_not_have_is_a_missing_vote(port: int) -> None:
    policy = AddressPolicy.parse([f"localhost:{port}"], ["127.0.0.0/8", "::1/128"], plain_http=True)
    pair = tuple(Endpoint(f"http://localhost:{port}", name, (name,)) for name in ("forest", "unknown"))
    with EndpointPool(policy) as pool:
        answer = RemoteBlackBox(SCHEMA, pair, pool).prepare(RECORDS, (0, 1), Deadline.never()).ask()
    assert [(vote.member, vote.reason, vote.passing) for vote in answer.missing] == [
        ("unknown", "answered with status 404", False)
    ]
