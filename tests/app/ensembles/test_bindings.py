"""Endpoints that the operator bound to tenants: nobody else asks them, and their own limit holds for all together."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from app.auth import queries as tenants
from app.db.engine import Database
from app.db.ledger_tables import Period
from app.db.tables import OPERATOR, utc_now
from app.ensembles import bindings, directory, service
from app.ensembles.bought import Allowance, EndpointLimit
from app.errors import ConflictError, EndpointError
from app.ledger.audit import check_ledger
from app.ledger.ledger import Ledger
from app.ledger.queries import open_beside
from models.errors import QueryLimitError
from tests.app.conftest import Customer, new_customer
from tests.app.ledger import CHAIN_KEY

URL = "https://models.lender.example/scores"
GATEWAY = "gateway"


def bind(database: Database, url: str, *allowed: Customer, name: str = GATEWAY) -> int:
    """The id of the operator's row."""
    with database.writing() as connection:
        service.bind_endpoint(connection, name, url, [customer.tenant_id for customer in allowed])
        return next(int(row.ensemble_id) for row in bindings.list_bound(connection) if row.name == name)


def admit(database: Database, customer: Customer, url: str = URL, model: str = "loans") -> tuple[EndpointLimit, ...]:
    return database.read(bindings.admit, customer.tenant_id, [{"url": url, "model": model}])


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
class TestWhoMayAsk:
    def test_nobody_but_those_it_is_bound_to(self, database: Database, customer: Customer) -> None:
        other, third = new_customer(database), new_customer(database)
        assert admit(database, other) == (), "what nobody bound, everybody may ask"
        bind(database, URL, customer, third)
        assert admit(database, customer) == admit(database, third) == ()
        with pytest.raises(EndpointError, match="not bound to this tenant"):
            admit(database, other)
        assert admit(database, other, "https://elsewhere.example/scores") == ()
        bind(database, URL, other)
        assert admit(database, other) == ()
        with pytest.raises(EndpointError):
            admit(database, customer)
        with database.writing() as connection:
            assert bindings.unbind(connection, bindings.list_bound(connection)[0].ensemble_id)
        assert admit(database, customer) == ()

    @pytest.mark.parametrize(
        ("url", "model"),
        [
            ("https://models.lender.example", "loans"),
            ("https://models.lender.example/other", "loans"),
            ("https://MODELS.lender.example./scores", "loans"),
            ("https://models.lender.example//scores", "loans"),
            ("https://models.lender.example/SCORES", "loans"),
            ("https://models.lender.example/x/../scores", "loans"),
            ("https://models.lender.example/%73cores", "loans"),
            ("https://models.lender.example/./scores", "loans"),
            ("http://models.lender.example/scores", "loans"),
            ("http://models.lender.example:443/scores", "loans"),
            ("https://models.lender.example:8443/scores", "loans"),
            ("https://models.lender.example/x", "../../../scores/v2/models/loans"),
            ("https://models.lender.example/x", ".."),
        ],
    )
    def test_the_way_a_url_is_written_opens_nothing(
        self, database: Database, customer: Customer, url: str, model: str
    ) -> None:
        """Once a part of a host is bound, all of it is closed to those whom nothing of it is bound to."""
        bind(database, URL, new_customer(database))
        with pytest.raises(EndpointError):
            admit(database, customer, url, model)

    def test_a_path_that_may_be_read_in_two_ways_is_not_for_its_own_tenants_either(
        self, database: Database, customer: Customer
    ) -> None:
        bind(database, URL, customer)
        bind(database, "https://models.lender.example/other", new_customer(database), name="other")
        for url in (
            "https://models.lender.example/scores/../other",
            "https://models.lender.example/scores/%2e%2e/other",
        ):
            with pytest.raises(EndpointError, match="write a plain path"):
                admit(database, customer, url)

    def test_one_model_of_a_server(self, database: Database, customer: Customer) -> None:
        other = new_customer(database)
        bind(database, f"{URL}/v2/models/loans", customer, name="loans")
        bind(database, f"{URL}/v2/models/cards", other, name="cards")
        assert admit(database, customer) == admit(database, other, model="cards") == ()
        for one, model in ((customer, "cards"), (other, "loans"), (other, "loans2"), (customer, "loan")):
            with pytest.raises(EndpointError):
                admit(database, one, model=model)

    def test_one_url_has_one_binding_and_lenders_do_not_have_the_operators_name(
        self, database: Database, customer: Customer
    ) -> None:
        bind(database, URL, customer)
        with pytest.raises(ConflictError, match="bound under another name"):
            bind(database, URL + "/", customer, name="again")
        with database.reading() as connection:
            assert OPERATOR not in [row.id for row in tenants.list_tenants(connection, utc_now())]

    def test_ensembles_that_are_shut_out_are_known(self, database: Database, customer: Customer) -> None:
        other = new_customer(database)
        described = [
            {"url": URL, "model": "loans", "members": ["a"], "outputs": ["a"], "layout": "columns", "seconds": 1}
        ]
        for one in (customer, other):
            with database.writing() as connection:
                schema = {"classes": ["no", "yes"]}
                directory.describe_remote(connection, one.tenant_id, one.ensemble_id, "1", schema, described, None)
        bind(database, URL, customer)
        assert database.read(bindings.shut_out) == [(other.tenant_id, "loans")]


Purse = Callable[..., Allowance]


@pytest.fixture
def limit(database: Database, ledger: Ledger, customer: Customer) -> EndpointLimit:
    """Of ten queries, on an endpoint that two lenders may ask."""
    ensemble_id = bind(database, URL, customer)
    ledger.set_limit(OPERATOR, ensemble_id, 10)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 100)
    return EndpointLimit(GATEWAY, OPERATOR, ensemble_id)


def test_two_tenants_share_the_limit_of_an_endpoint(
    database: Database, ledger: Ledger, customer: Customer, limit: EndpointLimit
) -> None:
    other = new_customer(database)
    ledger.set_limit(other.tenant_id, other.ensemble_id, 100)
    first = Allowance(ledger, customer.tenant_id, customer.ensemble_id, 7, limits=[limit])
    second = Allowance(ledger, other.tenant_id, other.ensemble_id, 7, limits=[limit])
    first.dispatch(5)
    with pytest.raises(QueryLimitError, match="the operator's limit on the endpoint 'gateway' does not leave") as error:
        second.dispatch(1)
    assert "7" not in str(error.value) and "used" not in str(error.value), "what others ask is not told"
    second.settle()
    assert second.dispatched == 0
    balance = ledger.balance(other.tenant_id, other.ensemble_id)
    assert (balance.used, balance.reserved) == (0, 0)
    first.settle()
    balance = ledger.balance(OPERATOR, limit.ensemble_id)
    assert (balance.used, balance.reserved) == (5, 0)
    third = Allowance(ledger, other.tenant_id, other.ensemble_id, 5, limits=[limit])
    third.dispatch(5)
    third.settle()
    assert ledger.balance(OPERATOR, limit.ensemble_id).remaining == 0
    assert check_ledger(database, CHAIN_KEY) == []


def test_tenants_that_race_never_pass_the_limit(
    database: Database, ledger: Ledger, customer: Customer, limit: EndpointLimit
) -> None:
    others = [customer, *(new_customer(database) for _ in range(3))]
    for one in others:
        ledger.set_limit(one.tenant_id, one.ensemble_id, 100)

    def ask(one: Customer) -> int:
        made = 0
        for _ in range(6):
            purse = Allowance(ledger, one.tenant_id, one.ensemble_id, 2, limits=[limit])
            try:
                purse.dispatch(1)
                made += 1
            except QueryLimitError:
                pass
            finally:
                purse.settle()
        return made

    with ThreadPoolExecutor(len(others)) as threads:
        made = sum(threads.map(ask, others))
    balance = ledger.balance(OPERATOR, limit.ensemble_id)
    assert (made, balance.reserved) == (balance.used, 0)
    assert 0 < made <= balance.limit
    assert sum(ledger.balance(one.tenant_id, one.ensemble_id).used for one in others) == made
    assert check_ledger(database, CHAIN_KEY) == []


def test_a_job_that_goes_on_after_a_crash_takes_its_reservation_at_the_endpoint_over(
    ledger: Ledger, customer: Customer, limit: EndpointLimit, database: Database
) -> None:
    """Or what the dead process held there would be missing to it."""
    known = uuid4()
    made = ledger.reserve(customer.tenant_id, customer.ensemble_id, 8, known)
    dead = Allowance(ledger, customer.tenant_id, customer.ensemble_id, 8, made, [limit])
    dead.dispatch(3)
    taken = ledger.take_over(customer.tenant_id, known)
    living = Allowance(ledger, customer.tenant_id, customer.ensemble_id, 5, taken, [limit])
    living.dispatch(5)
    with pytest.raises(Exception, match="taken over"):
        dead.dispatch(1)
    living.settle()
    balance = ledger.balance(OPERATOR, limit.ensemble_id)
    assert (balance.used, balance.reserved) == (8, 0)
    assert check_ledger(database, CHAIN_KEY) == []


def test_what_a_cancelled_job_held_at_the_endpoint_comes_back_with_the_rest(
    ledger: Ledger, customer: Customer, limit: EndpointLimit
) -> None:
    made = ledger.reserve(customer.tenant_id, customer.ensemble_id, 8)
    Allowance(ledger, customer.tenant_id, customer.ensemble_id, 8, made, [limit]).dispatch(3)
    taken = ledger.take_over(customer.tenant_id, made.id)
    ledger.settle(taken)
    ledger.settle_beside(taken)
    balance = ledger.balance(OPERATOR, limit.ensemble_id)
    assert (balance.used, balance.reserved) == (3, 0)


def test_each_budget_has_its_own_period(database: Database, customer: Customer) -> None:
    """A query counts in both for the period in which it is dispatched."""
    now = datetime(2026, 3, 1, 23, 55, tzinfo=UTC)
    ledger = Ledger(database, CHAIN_KEY, clock=lambda: now, lease=timedelta(hours=1))
    ensemble_id = bind(database, URL, customer)
    limit = EndpointLimit(GATEWAY, OPERATOR, ensemble_id)
    ledger.set_limit(OPERATOR, ensemble_id, 10, Period.DAY)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 100, Period.MONTH)
    purse = Allowance(ledger, customer.tenant_id, customer.ensemble_id, 10, limits=[limit])
    purse.dispatch(4)
    now += timedelta(minutes=10)
    purse.dispatch(3)
    assert ledger.balance(OPERATOR, ensemble_id).reserved == 6, "what was left is reserved in the new day"
    assert purse.reservation is not None
    found = database.read(open_beside, purse.reservation.id)
    assert len(found) == 1, "it still goes beside the tenant's"
    with pytest.raises(QueryLimitError):
        Allowance(ledger, customer.tenant_id, customer.ensemble_id, 5, limits=[limit]).dispatch(5)
    purse.settle()
    assert ledger.balance(OPERATOR, ensemble_id).used == 3
    assert ledger.balance(customer.tenant_id, customer.ensemble_id).used == 7
    assert check_ledger(database, CHAIN_KEY) == []


def test_what_goes_beside_a_reservation_follows_it_into_the_next_period(database: Database, customer: Customer) -> None:
    """Else a job that goes on after a crash would not find what it holds at the endpoint."""
    now = datetime(2026, 3, 1, 23, 55, tzinfo=UTC)
    ledger = Ledger(database, CHAIN_KEY, clock=lambda: now, lease=timedelta(hours=1))
    limit = EndpointLimit(GATEWAY, OPERATOR, bind(database, URL, customer))
    ledger.set_limit(OPERATOR, limit.ensemble_id, 10)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 100, Period.DAY)
    dead = Allowance(ledger, customer.tenant_id, customer.ensemble_id, 10, limits=[limit])
    dead.dispatch(4)
    before = dead.reservation
    now += timedelta(minutes=10)
    dead.dispatch(1)
    assert dead.reservation is not None and dead.reservation != before
    taken = ledger.take_over(customer.tenant_id, dead.reservation.id)
    living = Allowance(ledger, customer.tenant_id, customer.ensemble_id, 5, taken, [limit])
    living.dispatch(5)
    living.settle()
    balance = ledger.balance(OPERATOR, limit.ensemble_id)
    assert (balance.used, balance.reserved) == (10, 0)
    assert check_ledger(database, CHAIN_KEY) == []
