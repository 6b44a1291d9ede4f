"""A small client of the service over HTTP, for programs: typed answers, errors as one sentence, live progress.

with RecourseClient("http://127.0.0.1:8000", key) as client:
    answer = client.explain("loans", records, target="approved")
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar
from uuid import UUID

import httpx
from pydantic import TypeAdapter, ValidationError

from app.errors import ServiceError
from models.data.records import Value
from recourse_client.types import Answer, Budget, DataSet, Event, Job, Model, ModelVersions, Page

T = TypeVar("T")
ENDED = frozenset({"done", "failed", "cancelled"})


class RecourseClient:
    """One service, one key. Every method is one call; ServiceError carries what the service said."""

    def __init__(self, url: str, key: str, seconds: float = 300.0) -> None:
        if not (key.isascii() and key.isprintable()):
            raise ServiceError("the key holds a character that no key has: copy it anew")
        try:
            self._http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=seconds)
        except httpx.InvalidURL as error:
            raise ServiceError(f"'{url}' is no address ({error}): write it as http://127.0.0.1:8000") from error

    def __enter__(self) -> "RecourseClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def upload(self, path: Path, label: str, categories: Sequence[str] = ()) -> DataSet:
        """Send a CSV or Parquet file; `categories`: columns that are some, even if they look like numbers."""
        fields = {"label": label, "categories": list(categories)}
        with path.open("rb") as file:
            sent: dict[str, tuple[str, IO[bytes]]] = {"file": (path.name, file)}
            answer = self._sent(self._http.build_request("POST", "/datasets", files=sent, data=fields))
        return _read(DataSet, answer)

    def train(self, model: str, dataset: UUID, options: Mapping[str, object] | None = None) -> Job:
        """Start a training; `options` are the further fields of POST /train."""
        return self._ask(Job, "POST", "/train", body={"model": model, "dataset": str(dataset), **(options or {})})

    def jobs(self) -> list[Job]:
        """The newest hundred."""
        return self._items(Job, "/jobs")

    def job(self, job_id: UUID) -> Job:
        return self._ask(Job, "GET", f"/jobs/{job_id}")

    def cancel(self, job_id: UUID) -> Job:
        return self._ask(Job, "DELETE", f"/jobs/{job_id}")

    def follow(self, job_id: UUID) -> Iterator[Event]:
        """The job's events as they happen, until it has ended; a stream that breaks off is taken up again."""
        last = "0"
        while True:
            headers = {"Last-Event-ID": last, "Accept": "text/event-stream"}
            try:
                with self._http.stream("GET", f"/jobs/{job_id}/events", headers=headers) as answer:
                    if answer.is_error:
                        answer.read()
                        raise _problem(answer)
                    for event in read_events(answer.iter_lines()):
                        last = event.id or last
                        yield event
            except httpx.TransportError:
                pass
            if self.job(job_id).state in ENDED:
                return

    def explain(
        self,
        model: str,
        records: Sequence[Mapping[str, Value]],
        target: str,
        options: Mapping[str, object] | None = None,
    ) -> Answer:
        """What each record could change; `options` are the further fields of POST /explain."""
        body = {"model": model, "records": list(records), "target": target, **(options or {})}
        return self._ask(Answer, "POST", "/explain", body=body)

    def models(self) -> list[Model]:
        """The first hundred models."""
        return self._items(Model, "/models")

    def schema(self, model: str) -> dict[str, Any]:
        """The schema of the version that answers: the newest of the first hundred, or the active one among them."""
        found = _read(ModelVersions, self._send("GET", f"/models/{model}", params={"limit": 100}))
        versions = {version.number: version for version in found.versions}
        return (versions.get(found.active_version or 0) or versions[max(versions)]).schema

    def budgets(self) -> list[Budget]:
        """The first hundred budgets."""
        return self._items(Budget, "/budgets")

    def set_budget(self, ensemble: str, limit: int, period: str | None = None, restart: bool = False) -> Budget:
        body = {"limit": limit, "period": period, "restart": restart}
        return self._ask(Budget, "PUT", f"/budgets/{ensemble}", body=body)

    def ready(self) -> bool:
        try:
            return self._http.get("/readyz").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def _items(self, kind: type[T], path: str) -> list[T]:
        page = _read(Page, self._send("GET", path, params={"limit": 100}))
        return [TypeAdapter(kind).validate_python(item) for item in page.items]

    def _ask(self, kind: type[T], method: str, path: str, body: Mapping[str, object] | None = None) -> T:
        return _read(kind, self._send(method, path, body=body))

    def _send(
        self, method: str, path: str, body: Mapping[str, object] | None = None, params: Mapping[str, int] | None = None
    ) -> httpx.Response:
        try:
            request = self._http.build_request(method, path, json=body, params=params)
        except (TypeError, ValueError) as error:
            mend = "send plain texts and numbers, and None for a missing value"
            raise ServiceError(f"the request cannot be written as JSON ({error}): {mend}") from error
        return self._sent(request)

    def _sent(self, request: httpx.Request) -> httpx.Response:
        try:
            answer = self._http.send(request)
        except httpx.TransportError as error:
            host = request.url.copy_with(path="/", query=None)
            raise ServiceError(f"{host} did not answer ({error}): check that the service runs there") from error
        if answer.is_error:
            raise _problem(answer)
        return answer


def read_events(lines: Iterator[str]) -> Iterator[Event]:
    """Server-sent events; comments, which keep the line open, are passed over."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                yield Event(fields.get("id", ""), fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}
        elif not line.startswith(":"):
            name, _, text = line.partition(":")
            fields[name] = text.removeprefix(" ")


def _read(kind: type[T], answer: httpx.Response) -> T:
    """A proxy or a page to sign in answers 200, too."""
    try:
        return TypeAdapter(kind).validate_json(answer.content)
    except ValidationError as error:
        host = answer.request.url.copy_with(path="/", query=None)
        fact = f"{host} answered {answer.status_code}, but not as recourse does"
        raise ServiceError(f"{fact}: check that the address is that of the service") from error


def _problem(answer: httpx.Response) -> ServiceError:
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the service answered {answer.status_code}"
    return ServiceError(detail)
