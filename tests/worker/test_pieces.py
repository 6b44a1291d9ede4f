"""The trainer's parts, without processes: queries after a crash, errors that are tried again, a stale publisher."""

import errno
import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from uuid import UUID, uuid4

import pandas as pd
import pytest
from sqlalchemy import update

from app.artifacts import open_store
from app.db.engine import Database
from app.db.tables import DatasetRow, utc_now
from app.ensembles.bought import AnswerOwner
from app.errors import ConflictError, LostLeaseError
from app.ledger.audit import check_ledger
from app.ledger.balance import Reservation
from app.ledger.ledger import Ledger
from app.train import jobs, service
from app.train.jobs import Claim
from app.train.request import make_plan
from models.data.infer import infer_schema
from models.data.schema import FeatureKind
from models.datasets.loans import loans
from models.errors import ArtifactError, DataError, EnsembleError, QueryLimitError, SchemaError, StoppedError
from models.model import RecourseModel
from tests.app.conftest import Customer
from tests.fakes.service import Bell
from tests.models.tiny import TINY, make_task, random_model
from tests.servers.worker import ROWS, Site, changed, make_site
from worker import job
from worker.context import TrainingContext, open_context
from worker.ensemble import registered_schema, reserve, reserve_plan
from worker.held_job import HeldJob
from worker.job import without_folders
from worker.process import ENDED, FULL, STOPPED
from worker.progress import Progress, Units
from worker.training import Product, publish, read_splits

LEASE = timedelta(seconds=30)


@pytest.fixture
def site(tmp_path: Path, database: Database, database_url: str, customer: Customer) -> Site:
    return make_site(tmp_path, database, database_url, customer)


def hold(site: Site, late: timedelta = timedelta()) -> HeldJob:
    """Claim the job that waits, at a time when leases of before may be over."""
    now = utc_now() + late
    with site.database.writing() as connection:
        row = jobs.claim(connection, "test", now, now + LEASE)
    assert row is not None
    return HeldJob(site.database, Claim(row.id, row.fence), row.tenant_id)


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


def run_job(site: Site, monkeypatch: pytest.MonkeyPatch, training: Callable[[TrainingContext], None]) -> int:
    """The process of a training, with something else in the place of the training."""
    monkeypatch.setattr(job, "run_training", training)
    monkeypatch.setattr(job, "PAUSE_SECONDS", 0.0)
    return job._run(site.settings, site.database, hold(site), Event())


def fails_with(error: Exception) -> Callable[[TrainingContext], None]:
    def training(context: TrainingContext) -> None:
        raise error

    return training


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
class TestErrors:
    """What goes wrong in a training, and what becomes of the job."""

    def test_the_users_fault_fails_it_at_once(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        job_id = site.submit()
        assert run_job(site, monkeypatch, fails_with(DataError("Column 'age' holds dates."))) == ENDED
        job = site.job(job_id)
        assert (job.state, job.error) == ("failed", "Column 'age' holds dates.")
        assert site.events(job_id)[-1].payload == {"state": "failed", "error": "Column 'age' holds dates."}

    @pytest.mark.parametrize(
        ("error", "sentence"),
        [
            (RuntimeError("secret inside"), "The training failed for a reason that is not in the data"),
            (EnsembleError("only 1 of 3 members answered"), "only 1 of 3 members answered"),
        ],
    )
    def test_what_nobody_foresaw_is_tried_twice_more(
        self, site: Site, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
    ) -> None:
        job_id = site.submit()
        states = []
        for _ in range(3):
            assert run_job(site, monkeypatch, fails_with(error)) == ENDED
            states.append(site.job(job_id).state)
        assert states == ["queued", "queued", "failed"]
        assert site.job(job_id).error.startswith(sentence) and "secret" not in site.job(job_id).error
        assert [event.kind for event in site.events(job_id)].count("log") == 2

    def test_a_full_disk_is_nobody_s_fault(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        job_id = site.submit()
        full = OSError(errno.ENOSPC, "No space left on device")
        told = ArtifactError("The model cannot be written.")
        told.__cause__ = full
        for error in (full, told, RuntimeError("IoError(Os { code: 28, kind: StorageFull })")):
            assert run_job(site, monkeypatch, fails_with(error)) == FULL
            assert site.job(job_id).state == "running", "the trainer puts it back"
            HeldJob(site.database, Claim(job_id, site.job(job_id).fence), site.customer.tenant_id).release(
                counted=False
            )
            assert (site.job(job_id).state, site.job(job_id).attempts) == ("queued", 0)

    def test_told_to_stop(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        job_id = site.submit()
        assert run_job(site, monkeypatch, fails_with(StoppedError("told"))) == STOPPED
        assert site.job(job_id).state == "running", "the trainer puts it back"

    def test_a_lost_job_is_left_alone(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        job_id = site.submit()

        def lose(context: TrainingContext) -> None:
            hold(site, 2 * LEASE)
            context.progress.show("surrogate", 1, 2)

        with pytest.raises(LostLeaseError):
            run_job(site, monkeypatch, lose)
        job = site.job(job_id)
        assert (job.state, job.fence, job.progress) == ("running", 2, None)


def a_model() -> RecourseModel:
    return random_model(make_task(loans(60, seed=3)).encoder, TINY)


def test_a_stale_trainer_publishes_nothing(site: Site, customer: Customer) -> None:
    job_id = site.submit()
    product = Product(a_model(), None, AnswerOwner(customer.tenant_id, customer.ensemble_id, "1"), {"queries": 3})
    stale, fresh, store = hold(site), hold(site, 2 * LEASE), open_store(site.settings)
    with pytest.raises(LostLeaseError):
        publish(stale, store, "loans", True, product)
    assert site.version(job_id) is None and site.job(job_id).state == "running"
    version_id = publish(fresh, store, "loans", True, product)
    assert (site.job(job_id).state, site.job(job_id).model_version_id) == ("done", version_id)
    with pytest.raises(LostLeaseError):
        publish(fresh, store, "loans", True, product)


def test_the_reconciler_rings_and_gives_up(site: Site, customer: Customer) -> None:
    bell = Bell()
    waiting, worn = site.submit(), site.submit()
    site.ledger.set_limit(customer.tenant_id, customer.ensemble_id, 100)
    held = hold(site, -2 * LEASE)
    assert reserve(held, site.ledger, customer.ensemble_id, 60) is not None
    service.reconcile(site.database, site.ledger, bell, attempts=1)
    (ended,) = {waiting, worn} - set(bell.rung)
    job = site.job(held.id)
    assert ended == held.id and job.state == "failed" and "begun 1 times" in job.error
    assert site.ledger.balance(customer.tenant_id, customer.ensemble_id).reserved == 0, "given back at once"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_progress_is_thin_and_knows_what_is_left(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id, now = site.submit(), [0.0]
    monkeypatch.setattr("worker.progress.time.monotonic", lambda: now[0])
    progress = Progress(hold(site), lambda: False)
    progress.units = Units.of(replace(TINY, distill=replace(TINY.distill, rounds=0, finetune_steps=0)), rows=100)
    for step in range(1, 21):
        now[0] += 0.1
        progress.report("surrogate", step, 30, 1.0)
    written = site.job(job_id).progress
    assert 15 < written["step"] <= 20, "at most twice a second"
    left = (30 - written["step"]) + 2.0 * 20
    assert written["eta_seconds"] == pytest.approx(left * 0.1, rel=0.15)
    assert len([event for event in site.events(job_id) if event.kind == "progress"]) == 2
    progress.report("generator", 1, 20, float("nan"))
    assert "loss" not in site.job(job_id).progress, "JSON has no NaN"


def test_what_the_lender_protects_no_training_sets_free(site: Site) -> None:
    schema = infer_schema(loans(ROWS).frame, "decision")
    narrowed = {"features": {"age": {"protected": True}, "housing": {"immutable": True}}}
    found = registered_schema("scores", schema, None, changed(site.request, overrides=narrowed))
    assert found.features[found.index("housing")].immutable and found.features[found.index("age")].protected
    lifted = changed(site.request, overrides={"features": {"age": {"protected": False}}})
    with pytest.raises(SchemaError, match="'age' is protected by the schema of ensemble 'scores'"):
        registered_schema("scores", schema, None, lifted)


def test_only_the_lender_says_whether_a_value_may_be_missing(site: Site) -> None:
    schema = infer_schema(loans(ROWS).frame, "decision")
    widened = changed(site.request, overrides={"features": {"income": {"nullable": True}}})
    with pytest.raises(SchemaError, match="Whether 'income' may be missing is for the schema of ensemble 'scores'"):
        registered_schema("scores", schema, None, widened)


def test_the_order_of_categories_is_the_lender_s(site: Site) -> None:
    """The ensemble reads a category by its number: another order would ask about another applicant."""
    schema = infer_schema(loans(ROWS).frame, "decision")
    listed = list(schema.features[schema.index("housing")].categories)
    same = changed(site.request, overrides={"features": {"housing": {"categories": listed}}})
    assert registered_schema("scores", schema, None, same).features == schema.features
    turned = changed(site.request, overrides={"features": {"housing": {"categories": listed[::-1]}}})
    with pytest.raises(ConflictError, match="order of its categories"):
        registered_schema("scores", schema, None, turned)


def test_names_of_the_rows_and_copies_of_the_label_are_not_trained_on(site: Site, tmp_path: Path) -> None:
    """Unless the request's overrides name them; codes for missing values are refused until somebody says otherwise."""
    frame = loans(ROWS, seed=3).frame
    frame = frame.assign(
        customer_id=range(7, 7 + 3 * ROWS, 3), approved_flag=(frame["decision"] == "approved").astype(int)
    )
    keep_table(site, frame, tmp_path)
    site.submit()
    context = open_context(site.settings, site.database, hold(site), lambda: False)
    names = read_splits(context, site.request, None).encoder.schema.names
    assert set(frame.columns) - set(names) == {"customer_id", "approved_flag", "decision"}
    named = changed(site.request, overrides={"features": {"customer_id": {"immutable": True}}})
    assert "customer_id" in read_splits(context, named, None).encoder.schema.names
    keep_table(site, frame.assign(savings=frame["savings"].fillna(-999)), tmp_path)
    with pytest.raises(DataError, match=r"'savings' holds -999 in .* leave those cells empty"):
        read_splits(context, site.request, None)
    number = changed(site.request, overrides={"features": {"savings": {"lower": -1000}}})
    assert not read_splits(context, number, None).encoder.schema.features[names.index("savings")].nullable


def keep_table(site: Site, frame: pd.DataFrame, folder: Path) -> None:
    """In place of the site's data set, as if it had been uploaded so."""
    frame.to_csv(folder / "table.csv", index=False)
    digest = hashlib.sha256((folder / "table.csv").read_bytes()).hexdigest()
    location = open_store(site.settings).put_file(folder / "table.csv", f"datasets/{digest}.csv")
    with site.database.writing() as connection:
        connection.execute(update(DatasetRow).values(location=location, digest=digest))


def test_a_column_is_trained_as_what_the_upload_told(site: Site) -> None:
    site.submit()
    context = open_context(site.settings, site.database, hold(site), lambda: False)
    asked: list[tuple[str, dict[str, object], FeatureKind]] = [
        ("categorical", {}, FeatureKind.CATEGORICAL),
        ("numeric", {}, FeatureKind.NUMERIC),
        ("categorical", {"dependents": {"kind": "integer"}}, FeatureKind.INTEGER),
    ]
    for told, overrides, kind in asked:
        features = [{"name": "dependents", "kind": told}, {"name": "decision", "kind": "categorical"}]
        with site.database.writing() as connection:
            connection.execute(update(DatasetRow).values(schema={"features": features}))
        request = changed(site.request, overrides={"features": overrides})
        schema = read_splits(context, request, None).encoder.schema
        assert schema.features[schema.index("dependents")].kind is kind


def test_a_job_s_error_does_not_tell_where_files_are() -> None:
    said = "Nothing was written to '/srv/recourse/var/artifacts/models/x': No space left on device."
    assert without_folders(said) == "Nothing was written to 'x': No space left on device."
    for plain in ("Column 'a/b' is a date.", "'datasets/1/abc.csv' is not in the artifact store."):
        assert without_folders(plain) == plain
