"""The resident explainer with a real model, real searches and the real ledger."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event
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
from app.errors import DeadlineError, NotFoundError, UnknownBudgetError
from app.explain.contract import ExplainAnswer, ExplainRequest, ExplainTask, RobustnessBody, VerifyAnswer, VerifyTask
from app.explain.engine import batch, resident
from app.explain.engine.batch import CountQueries, Outcome, ReadyTask, read_tasks, run_batch
from app.explain.engine.batcher import BatchLimits
from app.explain.engine.resident import ResidentExplainer
from app.explain.engine.versions import LoadedVersion
from app.ledger.ledger import Ledger
from app.settings import Settings
from models.arrays import Records, Targets
from models.config import SearchConfig
from models.data.records import Value
from models.ensemble.protocol import Ensemble
from models.ensemble.votes import beta_lower_bound
from models.errors import ConstraintError, QueryLimitError, SolverError, TargetError
from models.model import RecourseModel
from models.search.answers import Explanation
from models.search.search import search
from models.space.feasible import FeasibleSet
from tests.app.conftest import Customer
from tests.fakes.lending import APPROVED, REFUSED, Lending, OneLender
from tests.patience import BOUND, PATIENCE, until
from tests.servers.running import free_port
from tests.worker import lender as lenders


def run(lender: OneLender, work: Callable[[ResidentExplainer], Awaitable[None]]) -> None:
    async def whole() -> None:
        explainer = ResidentExplainer(lender.load, BatchLimits(records=32))
        try:
            await work(explainer)
        finally:
            await explainer.close()

    asyncio.run(whole())


def bodies(answer: ExplainAnswer) -> list[bytes]:
    return [record.body for record in answer.records]


def test_an_answer_is_the_same_alone_and_in_a_crowd(lender: OneLender, lending: Lending) -> None:
    """Byte for byte, with other constraints, targets and sizes beside it."""
    few = lending.refused
    tasks = [
        lender.task(few[:1]),
        lender.task(few[1:4]),
        lender.task(few[4:5], constraints={"immutable": ["income"]}),
        lender.task(few[5:7], target=REFUSED),
        lender.task(few[7:9], constraints={"directions": {"savings": "up"}, "ranges": {"loan_months": [12, 60]}}),
        lender.task(few[9:10], k=2),
        lender.task(few[10:12], trajectory=True, price=0.001),
    ]

    async def work(explainer: ResidentExplainer) -> None:
        alone = [bodies(await explainer.explain(task)) for task in tasks]
        crowd = await asyncio.gather(*(explainer.explain(task) for task in [*tasks, *reversed(tasks)]))
        assert [bodies(answer) for answer in crowd] == [*alone, *reversed(alone)]
        assert lender.loads == 1
        document = json.loads(alone[0][0])
        assert set(document) == {"status", "error", "queries", "diagnosis", "notices", "counterfactuals"}
        assert len(json.loads(alone[6][0])["trajectory"]) > 2

    run(lender, work)


def test_each_trajectory_starts_at_the_record_and_ends_at_the_answer(
    lender: OneLender, lending: Lending, ledger: Ledger
) -> None:
    few = lending.refused[:20]
    wishes: list[dict[str, object]] = [{}, {"immutable": ["income", "housing"]}, {"ranges": {"loan_months": [12, 60]}}]
    tasks = [lender.task(few, queries, trajectory=True, k=2, constraints=each) for queries in (0, 5) for each in wishes]

    async def work(explainer: ResidentExplainer) -> None:
        ways = 0
        for task in tasks:
            for sent, body in zip(few, bodies(await explainer.explain(task)), strict=True):
                answer = json.loads(body)
                if not answer["counterfactuals"]:
                    assert "trajectory" not in answer
                    continue
                first, path = answer["counterfactuals"][0], answer["trajectory"]
                assert (path[0]["record"], path[0]["stage"], path[0]["cost"]) == (sent, "record", 0.0)
                assert {**path[-1], "record": first["record"], "stage": "answer", "time": 1.0} == path[-1]
                assert all(path[-1][name] == first[name] for name in ("cost", "expected_agreement"))
                ways += 1
        assert ways >= 30

    ledger.set_limit(lender.customer.tenant_id, lender.customer.ensemble_id, 1000)
    run(lender, work)


def test_a_bad_record_gets_its_own_error(lender: OneLender, lending: Lending) -> None:
    good = lending.refused[:2]
    bad: list[dict[str, Value]] = [{**good[0], "income": "much"}, {"age": 3}, {**good[0], "purpose": "yacht"}]

    async def work(explainer: ResidentExplainer) -> None:
        answer = await explainer.explain(lender.task([good[0], *bad, good[1]]))
        statuses = [record.status for record in answer.records]
        assert statuses[1:4] == ["error"] * 3
        assert "error" not in (statuses[0], statuses[4])
        errors = [json.loads(record.body)["error"] for record in answer.records]
        assert "not a number" in errors[1]
        assert "no column" in errors[2]
        assert "unknown category" in errors[3]
        clean = await explainer.explain(lender.task(good))
        assert bodies(clean) == [answer.records[0].body, answer.records[4].body]
        only_bad = await explainer.explain(lender.task(bad))
        assert [record.status for record in only_bad.records] == ["error"] * 3

    run(lender, work)


def test_what_is_wrong_with_an_order_is_said_and_fails_nobody_else(lender: OneLender, lending: Lending) -> None:
    few = lending.refused[:2]
    wrong = [
        (lender.task(few, target="rich"), TargetError, "not a class"),
        (lender.task(few, constraints={"immutable": ["shoe size"]}), ConstraintError, "no feature"),
        (lender.task(few, constraints={"ranges": {"income": [9e9, None]}}), ConstraintError, "none of its values"),
        (lender.task(few, constraints={"ranges": {"income": [5000.0, 100.0]}}), ConstraintError, "inverted"),
    ]

    async def work(explainer: ResidentExplainer) -> None:
        tasks = [asyncio.create_task(explainer.explain(task)) for task, _, _ in wrong]
        neighbour = asyncio.create_task(explainer.explain(lender.task(few)))
        assert {record.status for record in (await neighbour).records} & {"valid", "infeasible", "already_target"}
        for task, (_, kind, message) in zip(tasks, wrong, strict=True):
            with pytest.raises(kind, match=message):
                await task
        with pytest.raises(NotFoundError):
            await explainer.explain(replace(lender.task(few), version_id=uuid4()))
        with pytest.raises(NotFoundError):
            await explainer.explain(replace(lender.task(few), tenant_id=lender.customer.tenant_id + 1))
        with pytest.raises(DeadlineError):
            await explainer.explain(replace(lender.task(few), deadline=time.monotonic() - 1))

    run(lender, work)


def test_a_frozen_feature_that_must_change_is_the_record_s_error(lender: OneLender, lending: Lending) -> None:
    incomes = sorted(float(record["income"] or 0) for record in lending.refused)
    middle = incomes[len(incomes) // 2]
    constraints = {"immutable": ["income"], "ranges": {"income": [middle, None]}}
    task = lender.task(lending.refused[:10], constraints=constraints)

    async def work(explainer: ResidentExplainer) -> None:
        answer = await explainer.explain(task)
        below = [float(record["income"] or 0) < middle for record in task.request.records]
        assert [record.status == "error" for record in answer.records] == below
        error = json.loads(answer.records[below.index(True)].body)["error"]
        assert "must not change" in error
        assert not error.startswith("Row")

    run(lender, work)


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


def test_verify_asks_the_ensemble_as_it_is_now(lender: OneLender, lending: Lending, ledger: Ledger) -> None:
    owner = (lender.customer.tenant_id, lender.customer.ensemble_id)
    ledger.set_limit(*owner, 3)
    records: list[dict[str, Value]] = [*lending.refused[:2], {"age": 1}]
    task = VerifyTask(lender.customer.tenant_id, lender.version_id, records, APPROVED)

    async def work(explainer: ResidentExplainer) -> None:
        answer = await explainer.verify(task)
        assert (answer.charged, answer.reused) == (2, 0)
        assert answer.members == ("strict", "mild", "odd")
        first = answer.records[0]
        yes = [row is not None and row[0] > row[1] for row in first.probabilities]
        assert list(first.votes or ()) == yes
        assert first.agreement == pytest.approx(sum(yes) / 3)
        assert answer.records[2].error is not None
        again = await explainer.verify(replace(task, target=None))
        assert (again.charged, again.reused) == (0, 2)
        assert again.records[0].votes is None
        assert again.records[0].probabilities == first.probabilities
        with pytest.raises(QueryLimitError):
            await explainer.verify(replace(task, records=lending.refused[2:5]))

    run(lender, work)
    assert ledger.balance(*owner).used == lender.cards.count == 2


def test_no_tenant_holds_all_threads_that_verify(
    lender: OneLender, lending: Lending, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, gate, said = list[int](), Event(), VerifyAnswer((), (), (), 0, 0)

    def ask(version: LoadedVersion, task: VerifyTask) -> VerifyAnswer:
        asked.append(task.tenant_id)
        assert task.tenant_id == 2 or gate.wait(BOUND)
        return said

    async def work(explainer: ResidentExplainer) -> None:
        task = VerifyTask(1, lender.version_id, lending.refused[:1])
        slow = [asyncio.create_task(explainer.verify(task)) for _ in range(20)]
        await until(lambda: len(asked) == resident.ASKING_THREADS // 2)
        assert await asyncio.wait_for(explainer.verify(replace(task, tenant_id=2)), BOUND) is said
        gate.set()
        await asyncio.gather(*slow)

    monkeypatch.setattr(resident, "ask_ensemble", ask)
    loaded = lender.load(lender.customer.tenant_id, lender.version_id)
    monkeypatch.setattr(lender, "load", lambda tenant_id, version_id: loaded)
    try:
        run(lender, work)
    finally:
        gate.set()


def test_an_order_ends_at_its_own_deadline_while_its_batch_goes_on(
    lender: OneLender, lending: Lending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch has the time of its most patient task; who is in more of a hurry does not wait for it."""
    gates, sizes = [Event(), Event()], list[int]()

    def gated(version: LoadedVersion, tasks: Sequence[ExplainTask], count: CountQueries) -> list[Outcome]:
        sizes.append(len(tasks))
        assert gates[len(sizes) - 1].wait(BOUND)
        return run_batch(version, tasks, count)

    async def work(explainer: ResidentExplainer) -> None:
        task = lender.task(lending.refused[:1])
        first = asyncio.create_task(explainer.explain(task))
        await until(lambda: len(sizes) == 1)
        hasty = asyncio.create_task(explainer.explain(replace(task, deadline=time.monotonic() + 2.0 * PATIENCE)))
        patient = asyncio.create_task(explainer.explain(task))
        await asyncio.sleep(0)
        gates[0].set()
        await first
        await until(lambda: sizes == [1, 2])
        with pytest.raises(DeadlineError):
            await asyncio.wait_for(hasty, BOUND)
        assert not patient.done()
        gates[1].set()
        assert len((await patient).records) == 1

    monkeypatch.setattr(resident, "run_batch", gated)
    try:
        run(lender, work)
    finally:
        for gate in gates:
            gate.set()


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
    patient, other = (lender.task(lending.refused[n : n + 2], max_queries=10) for n in (0, 2))
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
