"""The OpenAPI document tells all there is: examples, ids, every answer; and what it tells is so (schemathesis)."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation, BaseSchema

from app.db.engine import Database
from app.db.tables import Role
from tests.app.api.conftest import Service
from tests.app.api.rows import add_ensemble, add_job, publish
from tests.app.api.test_datasets import csv, upload

EXAMPLES = 6
METHODS = {"get", "post", "put", "delete"}


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield f"{method.upper()} {path}", operation


@pytest.fixture
def document(service: Service) -> dict[str, Any]:
    answer: dict[str, Any] = service.nobody.get("/openapi.json").json()
    return answer


def test_every_call_has_an_id_a_tag_a_summary_and_its_problems(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    known = {tag["name"] for tag in document["tags"]}
    for name, operation in operations(document):
        assert operation["summary"] and operation["description"], name
        assert set(operation["tags"]) <= known, name
        if operation["tags"] == ["operations"] and "security" not in operation:
            continue
        assert operation["security"] == [{"key": []}], name
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert list(answer["content"]) == ["application/problem+json"], (name, status)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert named <= document["components"]["schemas"].keys()


def test_every_call_has_a_name_that_says_what_it_does(document: dict[str, Any]) -> None:
    """Five were called "Page"."""
    names = [operation["summary"] for _, operation in operations(document)]
    assert len(names) == len(set(names)) and all(" " in name for name in names), names


def test_every_body_and_every_answer_has_an_example(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    def shown(content: dict[str, Any]) -> bool:
        schema = content["schema"]
        schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        if "items" in schema.get("properties", {}):
            return shown({"schema": schema["properties"]["items"]["items"]})
        fields = schema.get("properties", {}).values()
        return "example" in content or "examples" in schema or any("examples" in field for field in fields)

    for name, operation in operations(document):
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        answers = [answer for status, answer in operation["responses"].items() if int(status) < 300]
        for part in (*bodies, *answers):
            for content in part.get("content", {}).values():
                assert shown(content), name


def test_the_page_works_without_the_internet(service: Service) -> None:
    page = service.nobody.get("/docs")
    assert page.headers["Content-Type"].startswith("text/html")
    named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(named) == 3
    for address in named:
        assert address.startswith("/"), address
        assert service.nobody.get(address).status_code == 200


@pytest.fixture
def api_schema(service: Service) -> BaseSchema:
    schema = schemathesis.openapi.from_url(f"{service.server.url}/openapi.json")
    # What only the state or the operator can refuse is written in no schema: a host that is not allowed (403), a
    # table that is no table, a schema that contradicts itself (422).
    checks = schema.config.checks
    checks.positive_data_acceptance.expected_statuses = ["2xx", "401", "403", "404", "409", "413", "415", "422", "429"]
    checks.negative_data_rejection.expected_statuses = ["400", "401", "403", "404", "405", "409", "413", "415", "422"]
    return schema


@pytest.fixture
def known(service: Service, database: Database) -> dict[str, str]:
    """Values of path parameters that are there, so that not every answer is a 404."""
    ensemble_id = add_ensemble(database, service.tenant_id)
    service.admin.put("/budgets/loans", json={"limit": 50})
    publish(database, service.tenant_id, ensemble_id)
    # Finished, so that the stream of its events ends.
    job_id = add_job(database, service.tenant_id)
    service.analyst.delete(f"/jobs/{job_id}")
    return {
        "name": "loans",
        "ensemble": "loans",
        "job_id": str(job_id),
        "dataset_id": upload(service.analyst, csv()).json()["id"],
        "key_id": service.admin.post("/keys", json={"name": "to revoke"}).json()["id"],
    }


# On Postgres only: it is the stricter of the two, and the calls are many.
@pytest.mark.parametrize("shared_database_url", ["postgres"], indirect=True, scope="module")
@pytest.mark.parametrize("mode", ["any", "known", "wrong"])
def test_what_the_document_says_is_so(
    api_schema: BaseSchema, service: Service, known: dict[str, str], mode: str
) -> None:
    """All checks of schemathesis on every call, with any values, with names that are there, and with wrong values."""
    statuses = set()
    for result in api_schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if mode == "wrong" and not (operation.body or operation.query or operation.path_parameters):
            continue
        statuses |= _try(operation, mode == "wrong", known if mode == "known" else {}, service.keys[Role.ADMIN])
    assert statuses >= {"any": {200, 201, 404, 422}, "known": {200, 204, 409}, "wrong": {404, 422}}[mode]


def _try(operation: APIOperation[Any, Any, Any, Any], wrong: bool, known: dict[str, str], key: str) -> set[int]:
    """The statuses of the answers; raises what a check has against one of them."""
    statuses = set()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE if wrong else GenerationMode.POSITIVE))
    def call(case: Case[Any]) -> None:
        for name in case.path_parameters or {}:
            case.path_parameters[name] = known.get(name, case.path_parameters[name])
        answer = case.call_and_validate(headers={"Authorization": f"Bearer {key}"})
        statuses.add(answer.status_code)

    call()
    return statuses
