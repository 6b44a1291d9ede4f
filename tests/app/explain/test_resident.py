"""The resident explainer with a real model, real searches and the real ledger."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from threading import Event
from uuid import uuid4

import pytest

from app.errors import DeadlineError, NotFoundError
from app.explain.contract import ExplainAnswer, ExplainTask, VerifyAnswer, VerifyTask
from app.explain.engine import resident
from app.explain.engine.batch import CountQueries, Outcome, run_batch
from app.explain.engine.batcher import BatchLimits
from app.explain.engine.resident import ResidentExplainer
from app.explain.engine.versions import LoadedVersion
from app.ledger.ledger import Ledger
from models.data.records import Value
from models.errors import ConstraintError, QueryLimitError, TargetError
from tests.fakes.lending import APPROVED, REFUSED, Lending, OneLender
from tests.patience import BOUND, PATIENCE, until


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
        assert ways >= 10

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
