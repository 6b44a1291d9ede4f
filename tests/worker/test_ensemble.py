"""The queries of a job: reserved once, taken over after a crash, given back when it ends."""

from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from app.artifacts import open_store
from app.db.tables import utc_now
from app.errors import LostLeaseError
from app.ledger.audit import check_ledger
from app.ledger.balance import Reservation
from app.ledger.ledger import Ledger
from app.train import jobs, service
from app.train.jobs import Claim
from app.train.request import make_plan
from models.errors import QueryLimitError
from tests.app.conftest import Customer
from tests.servers.worker import LEASE, Site, changed, hold
from worker.ensemble import reserve, reserve_plan
from worker.held_job import HeldJob


class TestReserve:
    """A job's queries, whatever happened to its processes before."""

    def test_it_is_taken_over_after_a_crash(self, site: Site, customer: Customer) -> None:
        site.ledger.set_limit(customer.tenant_id, customer.ensemble_id, 100)
        site.submit()
        first = reserve(hold(site), site.ledger, customer.ensemble_id, 60)
        assert first is not None
        site.ledger.dispatch(first, 10)
        second = reserve(hold(site, 2 * LEASE), site.ledger, customer.ensemble_id, 60)
        assert second is not None and (second.id, second.amount) == (first.id, 60)
        with pytest.raises(Exception, match="taken over"):
            site.ledger.dispatch(first, 1)
        assert site.ledger.balance(customer.tenant_id, customer.ensemble_id).reserved == 60

    def test_a_crash_before_it_was_made(self, site: Site, customer: Customer) -> None:
        site.ledger.set_limit(customer.tenant_id, customer.ensemble_id, 100)
        site.submit()
        held, planned = hold(site), uuid4()
        held.save_reservation(planned)
        made = reserve(hold(site, 2 * LEASE), site.ledger, customer.ensemble_id, 60)
        assert made is not None and made.id == planned

    @pytest.mark.parametrize(("room", "records"), [(2000, 10), (1640, 10), (1639, 0), (530, 0)])
    def test_the_oracle_s_share_is_left_out_of_a_small_budget(
        self, site: Site, customer: Customer, room: int, records: int
    ) -> None:
        site.ledger.set_limit(customer.tenant_id, customer.ensemble_id, room)
        job_id = site.submit()
        full = make_plan(changed(site.request, queries=None), "cpu")
        made, plan = reserve_plan(hold(site), site.ledger, customer.ensemble_id, full)
        assert made is not None and made.amount == plan.total == (1640 if records else 530)
        assert plan.measure.oracle_records == records
        again, after_a_crash = reserve_plan(hold(site, 2 * LEASE), site.ledger, customer.ensemble_id, full)
        assert again is not None and (again.id, after_a_crash.measure.oracle_records) == (made.id, records)
        told = [event.payload["message"] for event in site.events(job_id) if event.kind == "log"]
        assert all(line.startswith("Not compared with the oracle: 1640 queries were asked for") for line in told[:1])
        assert bool(told) == (records == 0)

    def test_a_budget_too_small_to_learn_from_is_refused(self, site: Site, customer: Customer) -> None:
        site.ledger.set_limit(customer.tenant_id, customer.ensemble_id, 529)
        site.submit()
        with pytest.raises(QueryLimitError, match="530 queries were asked for, but 529 of 529 remain"):
            full = make_plan(changed(site.request, queries=None), "cpu")
            reserve_plan(hold(site), site.ledger, customer.ensemble_id, full)

    def test_what_expired_is_followed_by_the_rest(self, site: Site, customer: Customer) -> None:
        late = Ledger(site.database, site.chain_key, clock=lambda: utc_now() + timedelta(hours=1))
        site.ledger.set_limit(customer.tenant_id, customer.ensemble_id, 100)
        site.submit()
        first = reserve(hold(site), site.ledger, customer.ensemble_id, 60)
        assert first is not None
        site.ledger.dispatch(first, 45)
        assert len(late.expire()) == 1
        second = reserve(hold(site, 2 * LEASE), site.ledger, customer.ensemble_id, 60)
        assert second is not None and second.amount == 15 and second.id != first.id
        site.ledger.dispatch(second, 15)
        site.ledger.settle(second)
        for later in (4, 6):
            spent = reserve(hold(site, later * LEASE), site.ledger, customer.ensemble_id, 60)
            assert spent is None, "all of it is spent, however often the job is resumed"
        assert site.ledger.balance(customer.tenant_id, customer.ensemble_id).used == 60
        assert check_ledger(site.database, site.chain_key) == []

    def test_a_crash_before_the_rest_was_made(
        self, site: Site, customer: Customer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        late = Ledger(site.database, site.chain_key, clock=lambda: utc_now() + timedelta(hours=1))
        site.ledger.set_limit(customer.tenant_id, customer.ensemble_id, 100)
        site.submit()
        first = reserve(hold(site), site.ledger, customer.ensemble_id, 60)
        assert first is not None
        site.ledger.dispatch(first, 45)
        late.expire()
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "reserve", crash)
            with pytest.raises(KeyboardInterrupt):
                reserve(hold(site, 2 * LEASE), site.ledger, customer.ensemble_id, 60)
        with monkeypatch.context() as patched:
            patched.setattr(HeldJob, "save_reservation", crash)
            with pytest.raises(KeyboardInterrupt):
                reserve(hold(site, 4 * LEASE), site.ledger, customer.ensemble_id, 60)
        rest = reserve(hold(site, 6 * LEASE), site.ledger, customer.ensemble_id, 60)
        assert rest is not None and rest.amount == 15, "45 of the 60 were asked before"
        assert site.ledger.balance(customer.tenant_id, customer.ensemble_id).reserved == 15

    def test_who_lost_the_job_gets_no_reservation(
        self, site: Site, customer: Customer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        site.ledger.set_limit(customer.tenant_id, customer.ensemble_id, 100)
        site.submit()
        slow, reserving = hold(site), Ledger.reserve
        taken = list[Reservation | None]()

        def after_another(ledger: Ledger, tenant_id: int, ensemble_id: int, amount: int, planned: UUID) -> Reservation:
            monkeypatch.setattr(Ledger, "reserve", reserving)
            taken.append(reserve(hold(site, 2 * LEASE), site.ledger, customer.ensemble_id, 60))
            return ledger.reserve(tenant_id, ensemble_id, amount, planned)

        monkeypatch.setattr(Ledger, "reserve", after_another)
        with pytest.raises(LostLeaseError):
            reserve(slow, site.ledger, customer.ensemble_id, 60)
        assert taken[0] is not None
        site.ledger.dispatch(taken[0], 60)

    def test_more_than_the_budget_is_refused(self, site: Site, customer: Customer) -> None:
        site.ledger.set_limit(customer.tenant_id, customer.ensemble_id, 59)
        site.submit()
        with pytest.raises(QueryLimitError, match="60 queries were asked for, but 59 of 59 remain"):
            reserve(hold(site), site.ledger, customer.ensemble_id, 60)

    def test_a_job_that_was_put_back_gives_all_of_it_back_when_it_is_cancelled(
        self, site: Site, customer: Customer
    ) -> None:
        job_id, folder = begun_and_put_back(site, customer)
        site.cancel(job_id)
        assert site.job(job_id).state == "cancelled"
        assert site.ledger.balance(customer.tenant_id, customer.ensemble_id).reserved == 0
        assert not folder.exists()

    def test_what_a_dead_process_left_behind_is_found(
        self, site: Site, customer: Customer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also what is no job's stays, and a job that goes on."""
        job_id, folder = begun_and_put_back(site, customer)
        with site.database.writing() as connection:
            jobs.request_cancel(connection, customer.tenant_id, job_id, utc_now())
        _, going_on = begun_and_put_back(site, customer)
        stranger = folder.parent / str(uuid4())
        for other in (stranger, folder.parent / "notes"):
            other.mkdir()
        store = open_store(site.settings)
        service.clean_up_ended(site.database, site.ledger, store)
        assert folder.exists(), "whoever ended it may still be cleaning up"
        monkeypatch.setattr(service, "SETTLED_AFTER", timedelta(seconds=-1))
        service.clean_up_ended(site.database, site.ledger, store)
        assert site.ledger.balance(customer.tenant_id, customer.ensemble_id).reserved == 60, "of the other one"
        assert not folder.exists() and going_on.exists() and stranger.exists()
        assert check_ledger(site.database, site.chain_key) == []


def begun_and_put_back(site: Site, customer: Customer) -> tuple[UUID, Path]:
    """A job that waits again, with 60 queries reserved, and its folder in the store."""
    site.ledger.set_limit(customer.tenant_id, customer.ensemble_id, 200)
    job_id = site.submit()
    with site.database.writing() as connection:
        row = jobs.claim(connection, "test", utc_now(), utc_now() + LEASE, job_id)
    assert row is not None
    held = HeldJob(site.database, Claim(job_id, row.fence), row.tenant_id)
    assert reserve(held, site.ledger, customer.ensemble_id, 60) is not None
    folder = site.settings.var_dir / "artifacts" / "jobs" / str(job_id)
    (folder / "members").mkdir(parents=True)
    held.release()
    return job_id, folder


def crash(*order: object) -> None:
    raise KeyboardInterrupt
