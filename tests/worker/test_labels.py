"""A registered ensemble beside the labels: classes in the wrong order end a training before it buys anything else."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from app.db.engine import Database
from app.ledger.audit import check_ledger
from app.train.request import LABELLED_RECORDS, Plan, make_plan
from models.arrays import Records
from models.data.infer import infer_schema
from models.data.records import from_records
from models.data.schema import Schema
from models.datasets.loans import approval_probability, loans
from models.errors import DataError
from tests.app.conftest import Customer
from tests.servers.worker import LEASE, Site, changed, hold, make_site
from tests.worker.lender import MEMBERS, Lender, lending, reachable, register
from tests.worker.test_training import keep_table
from worker.context import open_context
from worker.ensemble import compare_with_labels, find_registered, open_registered, reserve_plan
from worker.held_job import HeldJob
from worker.training import read_splits

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

ROWS = 600
GIVEN = {"savings": 2_000.0, "employment_years": 3.0, "housing": "rent"}
"""What the lender's model takes a missing value for."""


def chance(frame: pd.DataFrame) -> NDArray[np.float64]:
    """The policy that made the labels: (n,)"""
    return approval_probability(frame.fillna(GIVEN))


def blurred(records: Records, noise: float) -> NDArray[np.float64]:
    """Noise (n,) that is the same whenever a record is asked about."""
    digits = np.modf(np.abs(np.nan_to_num(records) @ np.sqrt(np.arange(2, 2 + records.shape[1]))) * 1e3)[0]
    return noise * (digits - 0.5)


@dataclass(frozen=True, eq=False)
class Desk:
    """A service, a lender with loans of which few went wrong, and the schema of them."""

    site: Site
    lender: Lender
    schema: Schema

    def register(self, members: tuple[str, ...] = MEMBERS, classes: tuple[str, ...] | None = None) -> int:
        schema = replace(self.schema, classes=classes or self.schema.classes)
        return register(self.site, self.lender, "scores", schema, members)

    def approved(self, records: Records, noise: float = 0.0) -> NDArray[np.float64]:
        """records (n, F) -> the share of approval (n,)"""
        frame = pd.DataFrame(from_records(self.schema, records)).infer_objects()
        return np.clip(0.1 + 0.8 * chance(frame) + blurred(records, noise), 0.0, 1.0)

    def train(self, **changes: object) -> UUID:
        request = changed(self.site.request, ensemble="scores", **{"queries": 600} | changes)
        job_id = self.site.submit(request)
        self.site.train_all()
        return job_id

    def used(self, ensemble_id: int) -> int:
        """What the budget paid; nothing may stay reserved, and the lender counts the same."""
        balance = self.site.ledger.balance(self.site.customer.tenant_id, ensemble_id)
        assert balance.reserved == 0 and check_ledger(self.site.database, self.site.chain_key) == []
        assert self.lender.seen["scores"] == balance.used
        return balance.used

    def told(self, job_id: UUID) -> list[str]:
        return [event.payload["message"] for event in self.site.events(job_id) if event.kind == "log"]


@pytest.fixture
def desk(tmp_path: Path, database: Database, database_url: str, customer: Customer) -> Iterator[Desk]:
    """One application in twenty was refused, by a rule with much chance in it."""
    frame = loans(ROWS, seed=3).frame
    score = chance(frame) + np.random.default_rng(0).normal(0, 0.3, ROWS)
    frame["decision"] = np.where(score <= np.quantile(score, 0.05), "refused", "approved")
    with lending() as lender:
        site = make_site(tmp_path, database, database_url, customer, **reachable(lender))
        keep_table(site, frame, tmp_path)
        yield Desk(site, lender, infer_schema(frame, "decision"))


def test_classes_in_the_wrong_order_are_refused_before_anything_else_is_bought(desk: Desk) -> None:
    desk.lender.score = lambda records: np.stack([desk.approved(records), desk.approved(records) ** 2])
    ensemble_id = desk.register(classes=("refused", "approved"))
    job_id = desk.train()
    job = desk.site.job(job_id)
    assert (job.state, desk.site.version(job_id), job.attempts) == ("failed", None, 1)
    assert "On 60 labelled records the AUC of strict, mild is 0.13, 0.13" in job.error
    fix = "with classes ['approved', 'refused']: register ensemble 'scores' again, as a new version, in that order."
    assert job.error.endswith(fix)
    assert desk.used(ensemble_id) == LABELLED_RECORDS


def test_a_weak_model_of_rare_defaults_is_trained_against_and_what_is_odd_is_told(desk: Desk) -> None:
    def score(records: Records) -> NDArray[np.float64]:
        weak, sure = desk.approved(records, noise=0.9), desk.approved(records)
        return np.stack([weak, np.full(len(records), 0.95), (sure > np.median(sure)).astype(float)])

    desk.lender.score = score
    ensemble_id = desk.register(("weak", "flat", "hard"))
    job_id = desk.train(queries=200)
    job, version = desk.site.job(job_id), desk.site.version(job_id)
    assert (job.state, job.error) == ("done", None)
    assert version is not None and version.metrics["queries"] == desk.used(ensemble_id) <= 200
    labels = version.metrics["labels"]
    assert labels["records"] == 20 and labels["base_rate"] == pytest.approx(0.95, abs=0.01)
    assert labels["auc"]["flat"] == 0.5 < labels["auc"]["weak"] and labels["auc"]["hard"] > 0.5
    assert set(labels["notices"]) <= set(desk.told(job_id))
    assert "'flat' gives all of the 20 labelled records the same probabilities." in labels["notices"]
    assert any(line.startswith("'hard' answers 0 or 1") for line in labels["notices"])
    assert any(line.startswith("'hard' is right for about") for line in labels["notices"])


class TestCompare:
    """The comparison alone, as each process of a job makes it."""

    def compare(self, desk: Desk, held: HeldJob, queries: int = 600) -> tuple[dict[str, object], Plan, int]:
        """Also what it was charged."""
        site = desk.site
        request = changed(site.request, ensemble="scores", queries=queries)
        context = open_context(site.settings, site.database, held, lambda: False)
        row = find_registered(context, "scores")
        splits = read_splits(context, request, row)
        reservation, plan = reserve_plan(held, context.ledger, row.id, make_plan(request, "cpu"))
        with closing(open_registered(context, row)) as boxes:
            asked = boxes.meter.open(queries, reservation=reservation)
            found, plan = compare_with_labels(context, "scores", plan, splits, asked, request.seed)
            return found, plan, asked.charged

    def test_what_was_bought_before_a_crash_is_free(self, desk: Desk) -> None:
        desk.lender.score = lambda records: np.stack([desk.approved(records)] * 2)
        desk.register()
        desk.site.submit(changed(desk.site.request, ensemble="scores", queries=600))
        first = self.compare(desk, hold(desk.site))
        again = self.compare(desk, hold(desk.site, 2 * LEASE))
        assert first[0] == again[0] and first[1] == again[1]
        assert (first[2], again[2], desk.lender.seen["scores"]) == (LABELLED_RECORDS, 0, LABELLED_RECORDS)

    def test_a_doubt_is_settled_with_queries_to_learn_from(self, desk: Desk) -> None:
        """The AUC of a reversed model with much noise is below 0.5 and may be chance: a tenth more tells."""
        desk.lender.score = lambda records: np.stack([0.5 + blurred(records, 0.1)] * 2)
        desk.register()
        desk.site.submit(changed(desk.site.request, ensemble="scores", queries=600))
        planned = make_plan(changed(desk.site.request, ensemble="scores", queries=600), "cpu")
        found, plan, charged = self.compare(desk, hold(desk.site))
        assert found["records"] == charged == LABELLED_RECORDS + planned.queries // 10
        assert plan.total == planned.total - planned.queries // 10
        notices = found["notices"]
        assert isinstance(notices, list) and any("no better than chance" in line for line in notices)

    def test_too_few_queries_are_told(self, desk: Desk) -> None:
        desk.register()
        job_id = desk.site.submit(changed(desk.site.request, ensemble="scores", queries=199))
        found, plan, charged = self.compare(desk, hold(desk.site), 199)
        reason = "a tenth of the job's 199 queries is fewer than 20; allow it 200 or more"
        assert (found, charged, plan.total) == ({"skipped": reason}, 0, 199)
        assert f"Not compared with the labels: {reason}." in desk.told(job_id)

    def test_a_class_that_no_row_has_is_refused_before_anything_is_asked(self, desk: Desk) -> None:
        desk.register(classes=("approved", "refused", "withdrawn"))
        desk.site.submit(changed(desk.site.request, ensemble="scores", queries=600))
        with pytest.raises(DataError, match="No row has the label withdrawn; the classes are approved, refused"):
            self.compare(desk, hold(desk.site))
        assert desk.lender.seen == {}
