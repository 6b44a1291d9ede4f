"""Jobs change their state by guarded steps only: one owner at a time, and none for whom the fence went up."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, select

from app.datasets.service import NewDataset, add_dataset
from app.db.engine import Database
from app.db.paging import PageOrder
from app.db.tables import AnyRow, JobState, ModelVersion
from app.errors import LostLeaseError, OverloadedError
from app.registry import queries
from app.registry.queries import NewVersion
from app.train import jobs
from app.train.jobs import Claim
from app.train.request import TrainRequest
from app.train.service import submit
from tests.app.conftest import Customer

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
LEASE = timedelta(seconds=30)


def add_job(database: Database, customer: Customer, at: datetime = NOW) -> UUID:
    job_id = uuid4()
    with database.writing() as connection:
        jobs.add_job(connection, customer.tenant_id, job_id, "loans", {"seed": 0}, at)
    return job_id


def claim(database: Database, now: datetime = NOW, job_id: UUID | None = None) -> Claim | None:
    with database.writing() as connection:
        row = jobs.claim(connection, "worker", now, now + LEASE, job_id)
    return None if row is None else Claim(row.id, row.fence)


def row_of(database: Database, customer: Customer, job_id: UUID) -> AnyRow:
    with database.reading() as connection:
        row = jobs.find_job(connection, customer.tenant_id, job_id)
    assert row is not None
    return row


def test_the_oldest_is_claimed_once(database: Database, customer: Customer) -> None:
    second, first = add_job(database, customer, NOW), add_job(database, customer, NOW - LEASE)
    assert claim(database) == Claim(first, 1)
    assert claim(database, job_id=first) is None
    assert claim(database) == Claim(second, 1)
    assert claim(database) is None
    row = row_of(database, customer, first)
    assert (row.state, row.attempts, row.lease_until, row.started_at) == ("running", 1, NOW + LEASE, NOW)


def test_many_workers_one_job(database: Database, customer: Customer) -> None:
    add_job(database, customer)
    start = Barrier(6)

    def race(_: int) -> Claim | None:
        start.wait()
        return claim(database)

    with ThreadPoolExecutor(6) as pool:
        won = [one for one in pool.map(race, range(6)) if one is not None]
    assert len(won) == 1


def test_an_overdue_lease_is_taken_over_and_the_old_owner_writes_nothing(
    database: Database, customer: Customer
) -> None:
    job_id = add_job(database, customer)
    old = claim(database)
    assert old is not None and claim(database, NOW + LEASE - timedelta(seconds=1)) is None
    new = claim(database, NOW + LEASE)
    assert new == Claim(job_id, 2)
    before = row_of(database, customer, job_id)
    writes = (
        lambda c: jobs.renew(c, old, NOW + 9 * LEASE),
        lambda c: jobs.save_progress(c, old, {"step": 1}),
        lambda c: jobs.save_checkpoint(c, old, "elsewhere"),
        lambda c: jobs.save_reservation(c, old, uuid4()),
        lambda c: jobs.release(c, old),
        lambda c: jobs.finish(c, old, uuid4(), NOW),
        lambda c: jobs.fail(c, old, "no", NOW),
        lambda c: jobs.cancel(c, old, NOW),
        lambda c: jobs.held(c, old),
    )
    for write in writes:
        with pytest.raises(LostLeaseError, match="no longer held under fence 1"), database.writing() as connection:
            write(connection)
    assert row_of(database, customer, job_id) == before


def test_a_claim_lives_on_renewals(database: Database, customer: Customer) -> None:
    add_job(database, customer)
    held = claim(database)
    assert held is not None
    with database.writing() as connection:
        assert jobs.renew(connection, held, NOW + 2 * LEASE) is False
    assert claim(database, NOW + LEASE) is None


def test_of_many_at_once_so_many_are_queued_as_may_be(database: Database, customer: Customer) -> None:
    dataset_id, start = uuid4(), Barrier(8)
    with database.writing() as connection:
        described = NewDataset("loans", "datasets/x", "0" * 64, 9, "approved", {"features": []}, None)
        add_dataset(connection, customer.tenant_id, dataset_id, described, NOW)
    request = TrainRequest(model="model", dataset_id=dataset_id)

    def ask(_: int) -> bool:
        start.wait()
        try:
            with database.writing() as connection:
                submit(connection, customer.tenant_id, uuid4(), request, 3)
        except OverloadedError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(8))) == 3
    with database.reading() as connection:
        assert jobs.count_unfinished(connection, customer.tenant_id) == 3


def test_cancel(database: Database, customer: Customer) -> None:
    queued, running = add_job(database, customer, NOW + LEASE), add_job(database, customer)
    held = claim(database)
    assert held is not None and held.job_id == running
    with database.writing() as connection:
        assert jobs.request_cancel(connection, customer.tenant_id + 1, queued, NOW) is None, "another tenant's"
        gone = jobs.request_cancel(connection, customer.tenant_id, queued, NOW)
        asked = jobs.request_cancel(connection, customer.tenant_id, running, NOW)
        assert gone is not None and (gone.state, gone.finished_at) == ("cancelled", NOW)
        assert asked is not None and asked.state == "running"
        assert jobs.renew(connection, held, NOW + LEASE) is True
        jobs.cancel(connection, held, NOW)
        assert jobs.request_cancel(connection, customer.tenant_id, running, NOW) is None
    assert row_of(database, customer, running).state == "cancelled"
    assert claim(database, NOW + 9 * LEASE) is None


def test_what_nobody_should_take_up_is_ended(database: Database, customer: Customer) -> None:
    worn, cancelled, alive = (add_job(database, customer, NOW + timedelta(seconds=n)) for n in range(3))
    for turn in range(3):
        assert claim(database, NOW + turn * LEASE, worn) is not None
    for job_id in (cancelled, alive):
        assert claim(database, NOW + 2 * LEASE, job_id) is not None
    with database.writing() as connection:
        jobs.request_cancel(connection, customer.tenant_id, cancelled, NOW)
        assert jobs.give_up(connection, NOW + 2 * LEASE, 3, "too often") == [], "their leases are good"
        ended = jobs.give_up(connection, NOW + 3 * LEASE, 3, "too often")
        assert {(row.id, row.state, row.error) for row in ended} == {
            (worn, "failed", "too often"),
            (cancelled, "cancelled", None),
        }
        assert jobs.waiting(connection, NOW + 3 * LEASE) == [alive]


def test_a_checkpoint_begins_the_count_anew(database: Database, customer: Customer) -> None:
    job_id = add_job(database, customer)
    held = claim(database)
    assert held is not None
    with database.writing() as connection:
        jobs.save_checkpoint(connection, held, "jobs/1/2")
        jobs.release(connection, held)
    assert claim(database) == Claim(job_id, 2)
    row = row_of(database, customer, job_id)
    assert (row.attempts, row.checkpoint) == (1, "jobs/1/2")


def test_pages_and_counts(database: Database, customer: Customer) -> None:
    made = [add_job(database, customer, NOW + timedelta(seconds=n)) for n in range(3)]
    claim(database)
    with database.reading() as connection:
        first = jobs.jobs_page(connection, customer.tenant_id, PageOrder(2))
        assert [row.id for row in first.rows] == made[:0:-1] and first.next is not None
        rest = jobs.jobs_page(connection, customer.tenant_id, PageOrder(2, first.next))
        assert [row.id for row in rest.rows] == made[:1] and rest.next is None
        queued = jobs.jobs_page(connection, customer.tenant_id, PageOrder(), JobState.QUEUED)
        assert {row.id for row in queued.rows} == set(made[1:])
        assert jobs.jobs_page(connection, customer.tenant_id, PageOrder(), model_name="other").rows == []
        assert jobs.count_unfinished(connection, customer.tenant_id) == 3


def test_events_come_in_order_and_stay_few(database: Database, customer: Customer) -> None:
    job_id = add_job(database, customer)
    with database.writing() as connection:
        first = jobs.add_event(connection, customer.tenant_id, job_id, "state", {"state": "queued"}, NOW)
        for step in range(jobs.MOST_PROGRESS):
            jobs.add_event(connection, customer.tenant_id, job_id, "progress", {"step": step}, NOW)
        left = jobs.thin_progress(connection, job_id)
        events = jobs.events_after(connection, customer.tenant_id, job_id, first)
        assert left == len(events) == jobs.MOST_PROGRESS // 2 + 1
        steps = [event.payload["step"] for event in events]
        assert steps == sorted(steps) and (steps[0], steps[-1]) == (0, jobs.MOST_PROGRESS - 1)
        assert jobs.thin_progress(connection, job_id) == left
        assert jobs.events_after(connection, customer.tenant_id + 1, job_id) == []


def version_of(job_id: UUID, customer: Customer) -> NewVersion:
    return NewVersion(job_id, "models/x", "d" * 64, customer.ensemble_id, "1", {}, ["no", "yes"], {}, [])


def numbers(connection: Connection, job_ids: list[UUID]) -> list[int]:
    """The number of the version that each job published."""
    published = connection.execute(select(ModelVersion.job_id, ModelVersion.number)).all()
    by_job = {row.job_id: row.number for row in published}
    return [by_job[job_id] for job_id in job_ids]


def test_versions_are_numbered_and_one_job_publishes_once(database: Database, customer: Customer) -> None:
    made = [add_job(database, customer) for _ in range(3)]

    def publish(connection: Connection, job_id: UUID, activate: bool) -> UUID:
        new = version_of(job_id, customer)
        return queries.publish(connection, customer.tenant_id, "loans", new, activate, NOW)

    with database.writing() as connection:
        first = publish(connection, made[0], activate=False)
        assert queries.active(connection, customer.tenant_id, "loans") == first, "the first is active always"
        second = publish(connection, made[1], activate=True)
        publish(connection, made[2], activate=False)
        assert queries.active(connection, customer.tenant_id, "loans") == second
        assert numbers(connection, made) == [1, 2, 3]
    with pytest.raises(Exception, match="job_id"), database.writing() as connection:
        publish(connection, made[0], activate=True)


def test_two_jobs_publish_the_same_model_at_once(database: Database, customer: Customer) -> None:
    made = [add_job(database, customer) for _ in range(4)]
    start = Barrier(4)

    def publish(job_id: UUID) -> None:
        start.wait()
        with database.writing() as connection:
            new = version_of(job_id, customer)
            queries.publish(connection, customer.tenant_id, "loans", new, True, NOW)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(publish, made))
    with database.reading() as connection:
        assert sorted(numbers(connection, made)) == [1, 2, 3, 4]
