"""POST /explain over HTTP: with the explainer in the API's process on SQLite, and in two workers on Postgres."""

import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from pydantic import SecretStr

from app.explain.answer import ExplainAnswerBody
from app.settings import Settings
from tests.fakes.lending import Lending, make_lending
from tests.published import Saved, save_two
from tests.servers.api import MODEL, WORKER_KEY, ExplainService, Lender, explain_service
from tests.servers.postgres import new_database

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def lending() -> Lending:
    return make_lending()


@pytest.fixture(scope="module")
def saved(lending: Lending, tmp_path_factory: pytest.TempPathFactory) -> tuple[Saved, Saved]:
    return save_two(lending, tmp_path_factory.mktemp("saved"))


@pytest.fixture(scope="module", params=["embedded", "workers"])
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, saved: tuple[Saved, Saved]
) -> Iterator[ExplainService]:
    var_dir = tmp_path_factory.mktemp("var")
    if request.param == "embedded":
        path = var_dir / "recourse.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        with explain_service(_settings(f"sqlite:///{path}", var_dir), saved, workers=0) as service:
            yield service
    else:
        server, template = (request.getfixturevalue(name) for name in ("postgres_server", "postgres_template"))
        with (
            new_database(server, f"recourse_{uuid4().hex}", template) as url,
            explain_service(_settings(url, var_dir), saved, workers=2) as service,
        ):
            yield service


def _settings(database_url: str, var_dir: Path) -> Settings:
    return Settings(
        var_dir=var_dir,
        database_url=SecretStr(database_url),
        worker_key=SecretStr(WORKER_KEY),
        max_records=200,
        explain_queue=250,
        min_free_bytes=0,
    )


@pytest.fixture
def lender(service: ExplainService) -> Iterator[Lender]:
    with service.lender() as lender:
        yield lender


def order(lending: Lending, count: int = 1, start: int = 0, **changes: object) -> dict[str, object]:
    """Few candidates, so that a test is quick."""
    records = (lending.refused * 10)[start : start + count]
    return {"model": MODEL, "records": records, "target": "approved", "candidates": 6, **changes}


def answers(response: httpx.Response) -> list[dict[str, object]]:
    """The explanations without what differs each time: their ids and charges."""
    assert response.status_code == 200, response.text
    ExplainAnswerBody.model_validate_json(response.content)
    found = response.json()["explanations"]
    return [{key: value for key, value in one.items() if key not in ("id", "charged")} for one in found]


def problem(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["Content-Type"] == "application/problem+json"
    return response.status_code, response.json()["type"].removeprefix("/problems/")


def test_explaining_and_the_decision_record(lender: Lender, lending: Lending) -> None:
    constraints = {"immutable": ["income"], "ranges": {"loan_months": [12, None]}, "directions": {"savings": "up"}}
    body = order(lending, 3, constraints=constraints, k=2, seed=7, trajectory=True)
    response = lender.client.post("/explain", json=body, headers={"X-Request-ID": "loan-42"})
    found = response.json()
    assert [found[key] for key in ("request_id", "model", "version", "target", "seed")] == [
        "loan-42",
        MODEL,
        1,
        "approved",
        7,
    ]
    for position, explained in enumerate(answers(response)):
        identity = found["explanations"][position]["id"]
        kept = lender.client.get(f"/explanations/{identity}").json()
        assert kept["answer"] == explained
        assert kept["record"] == lending.refused[position]
        assert kept["order"]["constraints"].items() >= constraints.items()
        assert (kept["order"]["seed"], kept["position"], kept["request_id"]) == (7, position, "loan-42")
        assert (kept["status"], kept["queries"]) == (explained["status"], explained["queries"])
        assert explained["trajectory"] if explained["counterfactuals"] else True
        for one in explained["counterfactuals"]:  # type: ignore[attr-defined]
            assert "income" not in [change["feature"] for change in one["changes"]]
    again = lender.client.post("/explain", json=body)
    assert answers(again) == answers(response)


def test_pages_of_decision_records(lender: Lender, lending: Lending) -> None:
    sent = order(lending, 5)
    sent["records"] = [*lending.refused[:4], {"age": 1}]
    lender.client.post("/explain", json=sent)
    first = lender.client.get("/explanations", params={"limit": 3}).json()
    second = lender.client.get("/explanations", params={"limit": 3, "cursor": first["next"]}).json()
    items = [*first["items"], *second["items"]]
    assert (len(items), second["next"]) == (5, None)
    assert {item["position"] for item in items} == set(range(5))
    bad = lender.client.get("/explanations", params={"status": "error", "model": MODEL}).json()["items"]
    assert [item["position"] for item in bad] == [4]
    assert lender.client.get("/explanations", params={"model": "other"}).json()["items"] == []


def test_a_bad_record_and_its_neighbours(lender: Lender, lending: Lending) -> None:
    body = order(lending, 2)
    good = answers(lender.client.post("/explain", json=body))
    body["records"] = [lending.refused[0], {**lending.refused[0], "income": 10**400}, {}, lending.refused[1]]
    mixed = answers(lender.client.post("/explain", json=body))
    assert [mixed[0], mixed[3]] == good
    assert [one["status"] for one in mixed[1:3]] == ["error", "error"]


def test_a_number_beyond_the_training_data_is_told_and_not_refused(lender: Lender, lending: Lending) -> None:
    rich = lending.refused[0] | {"income": 987_650}
    told, usual = answers(
        lender.client.post("/explain", json=order(lending, 2) | {"records": [rich, lending.refused[1]]})
    )
    assert told["status"] != "error" and usual["notices"] == []
    assert str(told["notices"]).startswith("[\"'income' is 987650, beyond the ")
    young = lending.refused[0] | {"age": 17}
    (refused,) = answers(lender.client.post("/explain", json=order(lending) | {"records": [young]}))
    assert "'age' holds 17, outside its bounds 18 to 99" in str(refused["error"]), "somebody said that it cannot be"


def test_a_record_without_values_that_the_models_need_is_no_good_record(lender: Lender, lending: Lending) -> None:
    """Without them 90 of 200 refused applicants were told that they are approved already."""
    empty = dict.fromkeys(("income", "late_payments", "debt_ratio"))
    body = order(lending, 2) | {"records": [lending.refused[0] | empty, lending.refused[0] | {"savings": None}]}
    wrong, fine = answers(lender.client.post("/explain", json=body))
    assert (wrong["status"], wrong["error"]) == (
        "error",
        "Columns 'income', 'late_payments', 'debt_ratio' have no value; the schema does not allow a missing one, "
        "so give it.",
    )
    assert fine["status"] != "error"


@pytest.mark.parametrize(
    ("changes", "expected", "reason"),
    [
        ({"model": "unknown"}, (404, "not-found"), "unknown"),
        ({"target": "rich"}, (422, "target"), "approved, refused"),
        ({"constraints": {"immutable": ["shoe size"]}}, (422, "constraint"), "shoe size"),
        ({"constraints": {"ranges": {"income": [10**9, None]}}}, (422, "constraint"), "none of its values"),
        ({"constraints": {"ranges": {"income": ["much"]}}}, (422, "constraint"), "least and its greatest"),
        ({"constraints": {"ranges": {"housing": ["castle"]}}}, (422, "constraint"), "castle"),
        ({"constraints": {"directions": {"age": "sideways"}}}, (422, "validation"), "directions"),
        ({"k": 11}, (422, "validation"), "k"),
        ({"records": []}, (422, "validation"), "records"),
        ({"robustness": {"max_querys": 3}}, (422, "validation"), "max_querys"),
        ({"candidates": 1000, "k": 10, "records": [{}] * 31}, (413, "too-large"), "paths"),
        ({"records": [{}] * 201}, (413, "too-large"), "200"),
        ({"robustness": {"max_queries": 5}}, (409, "no-budget"), "budget"),
        ({"deadline_ms": 1, "records": [{}] * 200}, (504, "deadline"), "deadline"),
    ],
)
def test_refusals_say_why(
    lender: Lender, lending: Lending, changes: dict[str, Any], expected: tuple[int, str], reason: str
) -> None:
    response = lender.client.post("/explain", json=order(lending) | changes)
    assert problem(response) == expected
    assert reason in response.text


def test_malformed_json(lender: Lender) -> None:
    assert problem(lender.client.post("/explain", content=b'{"model": "loans", ', headers=JSON)) == (400, "malformed")


def test_a_frozen_feature_that_must_change_is_the_record_s_error(lender: Lender, lending: Lending) -> None:
    constraints = {"immutable": ["loan_months"], "ranges": {"loan_months": [12, 12]}}
    found = answers(lender.client.post("/explain", json=order(lending, 8, constraints=constraints)))
    wrong = [record["loan_months"] != 12 for record in lending.refused[:8]]
    assert any(wrong)
    assert [one["status"] == "error" for one in found] == wrong
    assert "must not change" in str(found[wrong.index(True)]["error"])


@pytest.mark.parametrize("queries", [0, 5])
def test_where_everything_is_frozen_there_is_no_way_and_what_is_frozen_is_named(
    lender: Lender, lending: Lending, queries: int
) -> None:
    """31 of 300 refused applicants were told a way that changes nothing."""
    lender.resources.ledger.set_limit(lender.tenant_id, lender.ensemble_id, 100)
    free = [each.name for each in lending.model.encoder.schema.features if not each.immutable]
    wish = {"constraints": {"immutable": free}, "robustness": {"min_agreement": 1.0, "max_queries": queries}}
    found = answers(lender.client.post("/explain", json=order(lending, 8) | wish))
    lost = [one for one in found if one["status"] == "infeasible"]
    assert lost and {str(one["status"]) for one in found} <= {"infeasible", "already_target"}
    assert all(one["counterfactuals"] == [] for one in found)
    for one in lost:
        assert isinstance(one["diagnosis"], dict)
        assert all(name in one["diagnosis"]["advice"] for name in free)


def test_no_request_lifts_what_is_protected(lender: Lender, lending: Lending) -> None:
    lender.resources.ledger.set_limit(lender.tenant_id, lender.ensemble_id, 100)
    # The range of loan_months makes other records change, whatever the tiny surrogate thinks that changes are worth.
    ranges = {"age": [18, 99], "sex": ["female", "male"], "loan_months": [12, 12]}
    asked = {"ranges": ranges, "directions": {"age": "up", "dependents": "down"}}
    body = order(lending, 8, constraints=asked, k=3, robustness={"min_agreement": 1.0, "max_queries": 5})
    found = lender.client.post("/explain", json=body).json()["explanations"]
    changed = {change["feature"] for one in found for way in one["counterfactuals"] for change in way["changes"]}
    assert changed and not changed & {"age", "sex", "dependents"}
    forced = order(lending, 8, constraints={"ranges": {"sex": ["female"]}})
    found = lender.client.post("/explain", json=forced).json()["explanations"]
    told = ["is protected, so it must not change" in (one["error"] or "") for one in found]
    assert told == [record["sex"] == "male" for record in lending.refused[:8]] and any(told)


def test_verified_answers_are_metered_and_can_be_verified_later(lender: Lender, lending: Lending) -> None:
    ledger, owner = lender.resources.ledger, (lender.tenant_id, lender.ensemble_id)
    ledger.set_limit(*owner, 300)
    body = order(lending, 30, robustness={"min_agreement": 0.5, "max_queries": 5})
    response = lender.client.post("/explain", json=body)
    found = answers(response)
    assert {one["status"] for one in found} & {"robust", "already_target"}
    balance = ledger.balance(*owner)
    assert 0 < balance.used == response.json()["charged"] <= response.json()["queries"] <= 150
    assert balance.used == sum(one["charged"] for one in response.json()["explanations"])
    assert balance.reserved == 0
    promised = next(
        one for one in response.json()["explanations"] if one["status"] == "robust" and one["counterfactuals"]
    )
    path = f"/explanations/{promised['id']}/verify"
    now = lender.client.post(path).json()
    assert (now["holds"], now["charged"], now["promised_version"], now["asked_version"]) == (True, 0, 1, 1)
    assert now["votes"] == promised["counterfactuals"][0]["votes"]
    assert now["agreement"] == promised["counterfactuals"][0]["agreement"]
    assert ledger.balance(*owner).used == balance.used
    lender.activate(2)
    assert lender.client.post(path).json()["asked_version"] == 2
    assert problem(lender.client.post(path, params={"counterfactual": 5})) == (409, "conflict")


def test_charged_is_what_the_ledger_has_and_what_is_known_is_free(lender: Lender, lending: Lending) -> None:
    """Also for requests that are searched together, and that ask for the same."""
    ledger, owner = lender.resources.ledger, (lender.tenant_id, lender.ensemble_id)
    ledger.set_limit(*owner, 1000)
    twice = order(lending, robustness={"min_agreement": 1.0, "max_queries": 5}) | {"records": [lending.refused[5]] * 2}
    reply = lender.client.post("/explain", json=twice).json()
    assert reply["queries"] == 2 * reply["charged"] == 2 * ledger.balance(*owner).used > 0
    bodies = [order(lending, 2, robustness={"min_agreement": 1.0, "max_queries": 5}) for _ in range(4)]
    bodies += [order(lending, size, robustness={"min_agreement": 1.0, "max_queries": 5}) for size in (1, 3, 4, 5)]
    with ThreadPoolExecutor(len(bodies)) as together:
        replies = list(together.map(lambda body: lender.client.post("/explain", json=body).json(), bodies))
    charged = sum(each["charged"] for each in replies)
    assert 0 < charged == ledger.balance(*owner).used - reply["charged"]
    # Requests that ask for the same at the same moment may both pay for it.
    assert charged <= sum(each["queries"] for each in replies)
    for body, before in zip(bodies, replies, strict=True):
        again = lender.client.post("/explain", json=body).json()
        assert (again["queries"], again["charged"]) == (before["queries"], 0)
        for one, earlier in zip(again["explanations"], before["explanations"], strict=True):
            assert one["counterfactuals"] == earlier["counterfactuals"]


def test_a_budget_that_is_too_small(lender: Lender, lending: Lending) -> None:
    lender.resources.ledger.set_limit(lender.tenant_id, lender.ensemble_id, 9)
    asked: dict[str, Any] = {"robustness": {"max_queries": 5}}
    assert problem(lender.client.post("/explain", json=order(lending, 2) | asked)) == (429, "query-limit")
    assert lender.client.post("/explain", json=order(lending, 1) | asked).status_code == 200
    balance = lender.resources.ledger.balance(lender.tenant_id, lender.ensemble_id)
    assert balance.used <= 5
    assert balance.reserved == 0


def test_the_same_key_gives_the_same_answer(lender: Lender, lending: Lending) -> None:
    key = {"Idempotency-Key": "order 66".replace(" ", "-")}
    first = lender.client.post("/explain", json=order(lending), headers=key)
    again = lender.client.post("/explain", json=order(lending), headers=key)
    assert (first.content, again.headers["Idempotent-Replayed"]) == (again.content, "true")
    assert len(lender.client.get("/explanations").json()["items"]) == 1
    other = lender.client.post("/explain", json=order(lending, 2), headers=key)
    assert problem(other) == (422, "reused-key")


def test_kserve_s_form(lender: Lender, lending: Lending) -> None:
    body = order(lending, 2)
    expected = answers(lender.client.post("/explain", json=body))
    instances = {"instances": body.pop("records"), **{key: body[key] for key in ("target", "candidates")}}
    assert answers(lender.client.post(f"/v1/models/{MODEL}:explain", json=instances)) == expected
    assert problem(lender.client.post("/v1/models/unknown:explain", json=instances)) == (404, "not-found")


def test_another_tenant_s_are_not_there(service: ExplainService, lender: Lender, lending: Lending) -> None:
    identity = lender.client.post("/explain", json=order(lending)).json()["explanations"][0]["id"]
    with service.lender() as stranger:
        assert problem(stranger.client.get(f"/explanations/{identity}")) == (404, "not-found")
        assert problem(stranger.client.post(f"/explanations/{identity}/verify")) == (404, "not-found")
        assert stranger.client.get("/explanations").json()["items"] == []


def test_a_full_queue_says_when_to_come_back(lender: Lender, lending: Lending) -> None:
    def send(start: int) -> httpx.Response:
        return lender.client.post("/explain", json=order(lending, 120, start))

    with ThreadPoolExecutor(12) as pool:
        responses = list(pool.map(send, range(12)))
    refused = [response for response in responses if response.status_code != 200]
    assert 0 < len(refused) < 12
    for response in refused:
        assert problem(response) == (503, "overloaded")
        assert int(response.headers["Retry-After"]) >= 1


def test_versions_switch_while_requests_are_in_flight(lender: Lender, lending: Lending) -> None:
    expected = {}
    for number in (2, 1):
        lender.activate(number)
        expected[number] = answers(lender.client.post("/explain", json=order(lending, 2)))
    assert expected[1] != expected[2]
    switched = time.monotonic() + 3600

    def send(_: int) -> tuple[bool, int]:
        after = time.monotonic() > switched
        response = lender.client.post("/explain", json=order(lending, 2))
        number = response.json()["version"]
        assert answers(response) == expected[number]
        return after, number

    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(send, turn) for turn in range(20)]
        sent[4].result()
        lender.activate(2)
        switched = time.monotonic()
        found = [one.result() for one in sent]
        found += list(pool.map(send, range(4)))
    assert {number for after, number in found if after} == {2}
    assert {number for _, number in found} == {1, 2}


def test_who_hangs_up_is_not_waited_for(lender: Lender, lending: Lending) -> None:
    body, took = order(lending, 150, candidates=60), list[float]()
    for _ in range(2):  # the first one may have to wait for what only the first one needs
        began = time.monotonic()
        assert len(answers(lender.client.post("/explain", json=body))) == 150
        took.append(time.monotonic() - began)
    whole = min(took)
    with pytest.raises(httpx.ReadTimeout):
        lender.client.post("/explain", json=body, timeout=httpx.Timeout(60, read=whole / 5))
    time.sleep(1.5 * whole)
    assert lender.client.post("/explain", json=order(lending)).status_code == 200
    assert len(lender.client.get("/explanations", params={"limit": 500}).json()["items"]) == 301


def test_answers_are_json_as_it_should_be(lender: Lender, lending: Lending) -> None:
    text = lender.client.post("/explain", json=order(lending, 4)).text
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name))


def test_a_model_whose_files_are_gone_is_one_sentence(
    lender: Lender, lending: Lending, service: ExplainService
) -> None:
    """It was a 500 that named a folder."""
    lender.activate(2)
    folder = service.resources.artifacts.fetch_folder(f"models/{service.saved[1].digest}")
    gone = folder.rename(folder.with_name("gone"))
    response = lender.client.post("/explain", json=order(lending))
    assert problem(response) == (503, "artifact")
    told = response.json()["detail"]
    assert "missing or damaged in the artifact store" in told and "/" not in told and "activate another version" in told
    gone.rename(folder)
    assert lender.client.post("/explain", json=order(lending)).status_code == 200


STILL = {
    "format": 1,
    "features": {"savings": {"lever": "nobody"}, "loan_amount": {"lever": ["lender"], "label": "the loan"}},
    "rules": [],
}


EAGER: dict[str, Any] = {"price": 0.001, "robustness": {"min_expected_agreement": 0.0}}


def changed(explanation: dict[str, Any]) -> set[str]:
    return {change["feature"] for way in explanation["counterfactuals"] for change in way["changes"]}


def test_a_policy_holds_at_once_is_named_and_taken_back(lender: Lender, lending: Lending) -> None:
    put = lender.client.put(f"/models/{MODEL}/policy", json={"policy": STILL})
    assert put.status_code == httpx.codes.OK, put.text
    assert lender.client.get(f"/models/{MODEL}/policy").json() == put.json()
    try:
        for levers, forbidden in ((["applicant", "time"], {"savings", "loan_amount"}), (["lender"], {"savings"})):
            found: list[Any] = answers(lender.client.post("/explain", json=order(lending, 4, levers=levers, **EAGER)))
            assert {one["policy"] for one in found if one["status"] != "error"} == {put.json()["version"]}
            assert not forbidden & {name for one in found for name in changed(one)}
            if levers == ["lender"]:
                assert {name for one in found for name in changed(one)} <= {"loan_amount"}
            for one in found:
                for way in one["counterfactuals"]:
                    assert all(action["lever"] in levers and action["sentence"] for action in way["actions"])
    finally:
        assert lender.client.put(f"/models/{MODEL}/policy", json={"policy": None}).json()["version"] is None
    free: list[Any] = answers(lender.client.post("/explain", json=order(lending, 4)))
    assert not any("policy" in one for one in free)


@pytest.mark.parametrize(
    ("policy", "word"),
    [
        ({"format": 1, "features": {"shoe size": {}}}, "shoe size"),
        ({"format": 1, "rules": [{"rule": "magic"}]}, "Rule 1 is of the kind 'magic'"),
        ({"features": {}}, "'format'"),
    ],
)
def test_a_policy_that_makes_no_sense_is_one_sentence(lender: Lender, policy: dict[str, Any], word: str) -> None:
    refused = lender.client.put(f"/models/{MODEL}/policy", json={"policy": policy})
    assert refused.status_code == httpx.codes.UNPROCESSABLE_ENTITY and word in refused.json()["detail"]
    assert lender.client.get(f"/models/{MODEL}/policy").json()["policy"] is None


def test_sentences_are_in_the_language_of_the_request(lender: Lender, lending: Lending) -> None:
    ways = [
        way
        for one in answers(lender.client.post("/explain", json=order(lending, 4, language="de", **EAGER)))
        for way in one["counterfactuals"]  # type: ignore[attr-defined]
    ]
    assert ways and all(" von " in way["actions"][0]["sentence"] for way in ways)
