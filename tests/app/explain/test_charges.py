"""What a search with queries is charged: no more than was asked, and all of it told."""

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import numpy as np
import pytest
from numpy.typing import NDArray

from app import concurrency
from app.auth.keyring import open_keyring
from app.db.engine import Database
from app.ensembles.directory import EnsembleDirectory, describe, describe_remote
from app.ensembles.endpoint import Endpoint, Layout
from app.errors import DeadlineError, UnknownBudgetError
from app.explain.contract import ExplainAnswer, ExplainRequest, ExplainTask, RobustnessBody
from app.explain.engine import batch
from app.explain.engine.batch import ReadyTask, read_tasks, run_batch
from app.explain.engine.resident import ResidentExplainer
from app.explain.engine.versions import LoadedVersion
from app.ledger.ledger import Ledger
from app.settings import Settings
from models.arrays import Records, Targets
from models.config import SearchConfig
from models.ensemble.protocol import Ensemble
from models.ensemble.votes import beta_lower_bound
from models.errors import QueryLimitError, SolverError
from models.model import RecourseModel
from models.search.answers import Explanation
from models.search.search import search
from models.space.feasible import FeasibleSet
from tests.app.conftest import Customer
from tests.app.explain.test_resident import bodies, run
from tests.fakes.lending import APPROVED, Lending, OneLender
from tests.servers.running import free_port
from tests.worker import lender as lenders


def test_verified_orders_charge_what_the_black_box_saw(lender: OneLender, lending: Lending, ledger: Ledger) -> None:
    owner = (lender.customer.tenant_id, lender.customer.ensemble_id)
    ledger.set_limit(*owner, 1000)

    async def work(explainer: ResidentExplainer) -> None:
        tasks = [lender.task(lending.refused[n : n + 2], max_queries=4) for n in range(0, 12, 2)]
        answers = await asyncio.gather(*(explainer.explain(task) for task in tasks))
        asked = [record.queries for answer in answers for record in answer.records]
        assert all(0 < queries <= 4 for queries in asked)
        balance = ledger.balance(*owner)
        assert balance.reserved == 0
        assert balance.used == lender.cards.count <= sum(asked)
        again = await explainer.explain(tasks[0])
        assert bodies(again) == bodies(answers[0])
        assert ledger.balance(*owner).used == balance.used

    run(lender, work)


def test_only_orders_that_do_not_fit_are_refused(lender: OneLender, lending: Lending, ledger: Ledger) -> None:
    owner = (lender.customer.tenant_id, lender.customer.ensemble_id)

    async def work(explainer: ResidentExplainer) -> None:
        with pytest.raises(UnknownBudgetError):
            await explainer.explain(lender.task(lending.refused[:1], max_queries=3))
        ledger.set_limit(*owner, 9)
        blocker = asyncio.create_task(explainer.explain(lender.task(lending.refused[:8])))
        await asyncio.sleep(0)
        tasks = [lender.task(lending.refused[n : n + size], max_queries=3) for n, size in ((0, 2), (2, 4), (6, 1))]
        outcomes = await asyncio.gather(*(explainer.explain(task) for task in tasks), return_exceptions=True)
        await blocker
        assert [isinstance(outcome, QueryLimitError) for outcome in outcomes] == [False, True, False]
        balance = ledger.balance(*owner)
        assert balance.reserved == 0
        assert balance.used == lender.cards.count <= 9

    run(lender, work)


def test_charged_is_what_the_ledger_has_when_a_search_is_repeated(
    lender: OneLender, lending: Lending, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks break off after they were charged: together first, then each half until a record is alone."""
    owner = (lender.customer.tenant_id, lender.customer.ensemble_id)
    ledger.set_limit(*owner, 1000)
    failures: list[Exception] = [RuntimeError("a fault of ours"), SolverError("no end"), SolverError("no end")]

    def break_off(
        model: RecourseModel, target: Targets, allowed: FeasibleSet, config: SearchConfig, ensemble: Ensemble | None
    ) -> list[Explanation]:
        found = search(model, target, allowed, config, ensemble)
        if failures:
            raise failures.pop(0)
        return found

    monkeypatch.setattr(batch, "search", break_off)
    tasks = [lender.task(lending.refused[n : n + 2], max_queries=4) for n in (0, 2)]
    outcomes = batch.run_batch(lender.load(lender.customer.tenant_id, lender.version_id), tasks)
    answers = [outcome for outcome in outcomes if isinstance(outcome, ExplainAnswer)]
    assert not failures and len(answers) == 2
    charged = [record.charged for answer in answers for record in answer.records]
    assert 0 < sum(charged) == ledger.balance(*owner).used == lender.cards.count
    assert [record.status == "error" for record in answers[0].records] == [True, False]
    assert charged[0] > 0, "a record that ends in an error tells what it cost"


def test_nothing_more_is_asked_for_an_order_whose_time_is_over(
    lender: OneLender, lending: Lending, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its neighbour gets the answer that it would get alone."""
    owner = (lender.customer.tenant_id, lender.customer.ensemble_id)
    ledger.set_limit(*owner, 1000)
    patient, other = (lender.task(lending.refused[n : n + 8], max_queries=10) for n in (0, 8))
    hasty, late_by = replace(other, deadline=time.monotonic() + 3600), [0.0]
    predict = lender.cards.predict_proba

    def slowly(records: Records) -> NDArray[np.float64]:
        late_by[0] = 7200.0
        return predict(records)

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late_by[0])
    for module in (batch, concurrency):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(lender.cards, "predict_proba", slowly)
    version = lender.load(lender.customer.tenant_id, lender.version_id)
    late, answer = batch.run_batch(version, [hasty, patient])
    assert isinstance(late, DeadlineError) and isinstance(answer, ExplainAnswer)
    first, *later = lender.cards.asked
    assert ledger.balance(*owner).used == lender.cards.count

    cards = lending.scorecards()
    (ready,) = read_tasks(lending.model, [patient])
    assert isinstance(ready, ReadyTask)
    alone = search(lending.model, ready.target, ready.feasible, patient.request.search_config(), cards)
    its_own = rows_of(cards.asked)
    assert rows_of(later) and rows_of(later) < its_own and not rows_of([first]) <= its_own
    assert sum(record.charged for record in answer.records) == len(its_own)
    assert [record.status for record in answer.records] == [explanation.status for explanation in alone]


def rows_of(asked: Sequence[Records]) -> set[bytes]:
    return {row.tobytes() for records in asked for row in records}


@pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
def test_a_dead_member_leaves_the_others_to_answer(
    lending: Lending, database: Database, ledger: Ledger, customer: Customer, tmp_path: Path
) -> None:
    """Three records, ten queries each, and one of three servers gone: no budget error, and no vote of the dead."""
    schema, place = lending.model.encoder.schema, (customer.tenant_id, customer.ensemble_id)
    ledger.set_limit(*place, 100)
    with ExitStack() as stack:
        alive = [stack.enter_context(lenders.lending()).url for _ in range(2)]
        endpoints = [
            describe(Endpoint(url, "cards", (f"strict {n}", f"mild {n}"), layout=Layout.MATRIX))
            for n, url in enumerate([f"http://127.0.0.1:{free_port()}", *alive])
        ]
        with database.writing() as connection:
            describe_remote(connection, *place, "1", schema.to_json(), endpoints, None)
        urls = tuple(endpoint["url"].removeprefix("http://") for endpoint in endpoints)
        settings = Settings(
            var_dir=tmp_path, blackbox_hosts=urls, blackbox_networks=("127.0.0.0/8",), blackbox_plain_http=True
        )
        directory = EnsembleDirectory(settings, database, ledger, open_keyring(settings, database))
        stack.callback(directory.close)
        version = LoadedVersion(lending.model, lambda: directory.remote(*place, schema))
        robustness = RobustnessBody(min_agreement=1.0, max_queries=10)
        request = ExplainRequest(
            model="loans", records=lending.refused[:3], target=APPROVED, candidates=6, robustness=robustness
        )
        (answer,) = run_batch(version, [ExplainTask(request, customer.tenant_id, uuid4())])
    assert isinstance(answer, ExplainAnswer), answer
    found = [json.loads(body) for body in bodies(answer)]
    assert all(one["status"] in ("valid", "infeasible") for one in found), "never robust: two of six votes are missing"
    for one in found:
        for way in one["counterfactuals"]:
            accepted = [vote["accepts"] for vote in way["votes"]]
            assert accepted[:2] == [None, None]
            assert way["agreement"] == accepted.count(True) / 6
            assert way["lower_bound"] == beta_lower_bound(accepted.count(True), 6 - accepted.count(True))
    balance = ledger.balance(*place)
    assert 10 <= balance.used <= 30 and balance.reserved == 0
