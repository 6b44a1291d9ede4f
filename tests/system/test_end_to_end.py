"""The service from end to end, as a lender uses it: read this first. It runs on one machine and as in production."""

import json
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest

from models.datasets.loans import loans
from tests.servers.running import Mode, running_service

Json = dict[str, Any]
PATIENCE_MS = 240_000
"""The machine that tests may be busy with others; by default a request is given 30 s."""


@pytest.mark.parametrize("mode", ["embedded", "production"])
def test_a_lender_explains_refusals_and_keeps_its_promises(mode: Mode, tmp_path: Path) -> None:
    applications = loans(rows=200, seed=3)
    with running_service(mode, tmp_path) as http:
        # The lender uploads past applications; the service says how it understood them.
        table = {"file": ("loans.csv", applications.frame.to_csv(index=False))}
        dataset = sent(http.post("/datasets", files=table, data={"label": "decision"}), 201)
        assert (dataset["rows"], set(dataset["class_counts"])) == (200, {"approved", "refused"})

        # It orders a training: two models to be explained, and the queries that the training may ask them.
        order = {
            "model": "loans",
            "dataset": dataset["id"],
            "overrides": applications.overrides,
            "members": ["knn", "forest"],
            "queries": 12,
            "effort": 0.02,
        }
        job = sent(http.post("/train", json=order), 202)

        # It watches the training get on, live, until it is done.
        events = watched(http, job)
        assert [event["state"] for event in events if "state" in event] == ["queued", "running", "done"]
        phases = [event["phase"] for event in events if "phase" in event]
        assert phases[0] == "data" and phases[-1] == "publish"
        assert {"surrogate", "generator", "distill"} <= set(phases)

        # What the training asked is off the budget, and never more than it was allowed.
        model = sent(http.get("/models/loans"))
        before = budget(http)
        assert model["active_version"] == 1
        assert before["used"] == model["versions"][0]["metrics"]["queries"] <= 12

        # Refused applicants: what should they change? Not where they live, and nobody can ask for less than 2000.
        refused = plain_records(applications.frame[applications.frame["decision"] == "refused"].head(8))
        question = {
            "model": "loans",
            "records": refused,
            "target": "approved",
            "constraints": {
                "immutable": ["housing", "employment"],
                "ranges": {"loan_amount": [2000, None]},
                "directions": {"savings": "up"},
            },
            "robustness": {"min_agreement": 1.0, "max_queries": 10},
            "deadline_ms": PATIENCE_MS,
        }
        answer = sent(http.post("/explain", json=question, headers={"Idempotency-Key": "refusals-of-monday"}))
        robust = [explained for explained in answer["explanations"] if explained["status"] == "robust"]
        assert len(answer["explanations"]) == 8 and robust
        for explained in robust:
            recourse = explained["counterfactuals"][0]
            assert [vote["accepts"] for vote in recourse["votes"]] == [True, True]
            changed = {change["feature"]: change for change in recourse["changes"]}
            assert changed and changed.keys().isdisjoint({"housing", "employment", "purpose", "dependents"})
            assert recourse["record"]["loan_amount"] >= 2000

        # The budget has fallen by what was asked, less what had been bought before; the same request costs nothing.
        after = budget(http)
        assert 0 < after["used"] - before["used"] == before["remaining"] - after["remaining"] == answer["charged"]
        assert sent(http.post("/explain", json=question, headers={"Idempotency-Key": "refusals-of-monday"})) == answer
        assert budget(http) == after

        # Weeks later the lender trains its models again. The new version answers at once.
        sent(http.post("/train", json={**order, "seed": 1, "queries": 0}), 202)
        retrained = sent(http.get("/jobs"))["items"][0]
        assert watched(http, retrained)[-1]["state"] == "done"
        assert sent(http.get("/models/loans"))["active_version"] == 2
        assert budget(http)["used"] == after["used"], "it was allowed no query"

        # An applicant did as told and comes back: the record of the decision is there, and the promise is checked.
        promised = sent(http.get(f"/explanations/{robust[0]['id']}"))
        assert promised["record"] in refused and promised["version"] == 1
        checked = sent(http.post(f"/explanations/{promised['id']}/verify", params={"deadline_ms": PATIENCE_MS}))
        assert (checked["promised_version"], checked["asked_version"], checked["charged"]) == (1, 2, 1)
        accepting = [vote["accepts"] for vote in checked["votes"]]
        assert checked["holds"] == all(accepting) and checked["agreement"] == pytest.approx(sum(accepting) / 2)
        assert budget(http)["used"] == after["used"] + 1


def sent(answer: httpx.Response, expected: int = 200) -> Json:
    """The answer's body, if the service said what was expected."""
    assert answer.status_code == expected, answer.text
    body: Json = answer.json()
    return body


def watched(http: httpx.Client, job: Json) -> list[Json]:
    """The job's events until it has ended, read as they come (server-sent events)."""
    events: list[Json] = []
    with http.stream("GET", f"/jobs/{job['id']}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("data:"):
                events.append(json.loads(line.removeprefix("data:")))
    return events


def budget(http: httpx.Client) -> Json:
    """What is left to ask the models that explain `loans`."""
    found: list[Json] = sent(http.get("/budgets"))["items"]
    return next(row for row in found if row["ensemble"] == "loans")


def plain_records(frame: pd.DataFrame) -> list[Json]:
    """Raw values as a loan system would send them: no label, null where a field was left empty."""
    records: list[Json] = json.loads(frame.drop(columns="decision").to_json(orient="records"))
    return records
