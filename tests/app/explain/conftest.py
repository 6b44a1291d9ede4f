"""A lender that every test of explaining may use."""

import pytest

from app.db.engine import Database
from app.ledger.ledger import Ledger
from tests.app.conftest import Customer
from tests.fakes.lending import Lending, OneLender, make_lending


@pytest.fixture(scope="session")
def lending() -> Lending:
    return make_lending()


@pytest.fixture
def lender(lending: Lending, database: Database, ledger: Ledger, customer: Customer) -> OneLender:
    return OneLender(lending, database, ledger, customer)
