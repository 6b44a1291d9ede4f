"""The calls of the API, each described once: its method, its path, its body, and how its answer is read.

`Calls` lists them for both clients (client.py): a method of `RecourseClient` makes its call and waits for the answer,
the same method of `AsyncRecourseClient` is awaited.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload
from uuid import UUID

import httpx
from pydantic import TypeAdapter, ValidationError

from recourse_client.types import (
    Answer,
    Budget,
    DataSet,
    Decision,
    DecisionSummary,
    Ensemble,
    Entry,
    Job,
    JobSummary,
    Key,
    Model,
    ModelPolicy,
    ModelVersions,
    NewKey,
    Page,
    Predictions,
    Readiness,
    Usage,
    Value,
    Verification,
)

if TYPE_CHECKING:
    from recourse_client.client import AsyncRecourseClient, RecourseClient

P = ParamSpec("P")
T = TypeVar("T")


class ClientError(Exception):
    """The service refused, or did not answer: the message is a sentence. status: of HTTP; None without an answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, and how its answer is read. options: as httpx's build_request takes them."""

    read: Callable[[httpx.Response], T]
    method: str
    path: str
    options: Mapping[str, Any]
    any_status: bool = False


def _call(
    kind: type[T],
    method: str,
    path: str,
    body: object = None,
    params: Mapping[str, object] | None = None,
    idempotency_key: str | None = None,
    any_status: bool = False,
) -> Call[T]:
    options: dict[str, Any] = {"params": {name: value for name, value in (params or {}).items() if value is not None}}
    if body is not None:
        options["json"] = body
    options |= _under(idempotency_key)
    return Call(lambda answer: parsed(kind, answer), method, path, options, any_status)


def _under(idempotency_key: str | None) -> dict[str, Any]:
    return {} if idempotency_key is None else {"headers": {"Idempotency-Key": idempotency_key}}


def parsed(kind: type[T], answer: httpx.Response) -> T:
    """A proxy or a page to sign in answers 200, too."""
    try:
        return TypeAdapter(kind).validate_json(answer.content)
    except ValidationError as error:
        fact = f"{host_of(answer.request)} answered {answer.status_code}, but not as recourse does"
        raise ClientError(f"{fact}: check that the address is that of the service", answer.status_code) from error


def host_of(request: httpx.Request) -> httpx.URL:
    return request.url.copy_with(path="/", query=None)


class _Method(Generic[P, T]):
    """A call as a method of both clients: `RecourseClient` waits for its answer, that of the other is awaited."""

    def __init__(self, make: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    @overload
    def __get__(self, client: "RecourseClient", owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: "AsyncRecourseClient", owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: "RecourseClient | AsyncRecourseClient | None", owner: type) -> object:
        if client is None:
            return self
        make = MethodType(self._make, client)

        @wraps(make)
        def method(*args: P.args, **kwargs: P.kwargs) -> object:
            return client.run(make(*args, **kwargs))

        return method


class Calls:
    """The calls of the API, for both clients."""

    @_Method
    def explain(
        self,
        model: str,
        records: Sequence[Mapping[str, Value]],
        target: str,
        options: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Answer]:
        """What each record could change to reach the target; `options` are the further fields of POST /explain."""
        body = {"model": model, "records": list(records), "target": target, **(options or {})}
        return _call(Answer, "POST", "/explain", body, idempotency_key=idempotency_key)

    @_Method
    def explanations(
        self, model: str | None = None, status: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Call[Page[DecisionSummary]]:
        """Decision records, the newest first."""
        params = {"model": model, "status": status, "limit": limit, "cursor": cursor}
        return _call(Page[DecisionSummary], "GET", "/explanations", params=params)

    @_Method
    def explanation(self, explanation_id: UUID) -> Call[Decision]:
        """One decision record."""
        return _call(Decision, "GET", f"/explanations/{explanation_id}")

    @_Method
    def verify(
        self,
        explanation_id: UUID,
        counterfactual: int = 0,
        deadline_ms: int | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Verification]:
        """Whether a promised recourse still holds; `counterfactual`: which of the answers."""
        params = {"counterfactual": counterfactual, "deadline_ms": deadline_ms}
        path = f"/explanations/{explanation_id}/verify"
        return _call(Verification, "POST", path, params=params, idempotency_key=idempotency_key)

    @_Method
    def upload(
        self, path: Path, label: str | None = None, categories: Sequence[str] = (), idempotency_key: str | None = None
    ) -> Call[DataSet]:
        """Send a CSV or Parquet file; `categories`: columns that are some, even if they look like numbers."""
        fields = {"categories": list(categories)} | ({} if label is None else {"label": label})
        options = {"files": {"file": (path.name, path.read_bytes())}, "data": fields, **_under(idempotency_key)}
        return Call(lambda answer: parsed(DataSet, answer), "POST", "/datasets", options)

    @_Method
    def datasets(self, limit: int = 100, cursor: str | None = None) -> Call[Page[DataSet]]:
        """Uploaded tables, the newest first."""
        return _call(Page[DataSet], "GET", "/datasets", params={"limit": limit, "cursor": cursor})

    @_Method
    def dataset(self, dataset_id: UUID) -> Call[DataSet]:
        """One uploaded table."""
        return _call(DataSet, "GET", f"/datasets/{dataset_id}")

    @_Method
    def train(
        self, model: str, dataset: UUID, options: Mapping[str, object] | None = None, idempotency_key: str | None = None
    ) -> Call[Job]:
        """Start a training; `options` are the further fields of POST /train."""
        body = {"model": model, "dataset": str(dataset), **(options or {})}
        return _call(Job, "POST", "/train", body, idempotency_key=idempotency_key)

    @_Method
    def jobs(
        self, state: str | None = None, model: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Call[Page[JobSummary]]:
        """Trainings, the newest first, without what was asked for."""
        params = {"state": state, "model": model, "limit": limit, "cursor": cursor}
        return _call(Page[JobSummary], "GET", "/jobs", params=params)

    @_Method
    def job(self, job_id: UUID) -> Call[Job]:
        """One training."""
        return _call(Job, "GET", f"/jobs/{job_id}")

    @_Method
    def cancel(self, job_id: UUID) -> Call[Job]:
        """Ask a training to stop."""
        return _call(Job, "DELETE", f"/jobs/{job_id}")

    @_Method
    def models(self, limit: int = 100, cursor: str | None = None) -> Call[Page[Model]]:
        """Models, the newest first."""
        return _call(Page[Model], "GET", "/models", params={"limit": limit, "cursor": cursor})

    @_Method
    def model(self, name: str, limit: int = 100, cursor: str | None = None) -> Call[ModelVersions]:
        """A model and its versions, the newest first."""
        return _call(ModelVersions, "GET", f"/models/{name}", params={"limit": limit, "cursor": cursor})

    @_Method
    def schema(self, name: str) -> Call[dict[str, Any]]:
        """The schema of the version that answers: the newest of the first hundred, or the active one among them."""

        def read(answer: httpx.Response) -> dict[str, Any]:
            found = parsed(ModelVersions, answer)
            versions = {version.number: version for version in found.versions}
            return (versions.get(found.active_version or 0) or versions[max(versions)]).schema_

        return Call(read, "GET", f"/models/{name}", {"params": {"limit": 100}})

    @_Method
    def activate(self, name: str, version: int, idempotency_key: str | None = None) -> Call[Model]:
        """Let another version of a model answer."""
        return _call(Model, "POST", f"/models/{name}/activate", {"version": version}, idempotency_key=idempotency_key)

    @_Method
    def policy(self, name: str) -> Call[ModelPolicy]:
        """The action policy of a model."""
        return _call(ModelPolicy, "GET", f"/models/{name}/policy")

    @_Method
    def set_policy(self, name: str, policy: Mapping[str, object] | None) -> Call[ModelPolicy]:
        """Replace the action policy of a model, without training."""
        return _call(ModelPolicy, "PUT", f"/models/{name}/policy", {"policy": policy})

    @_Method
    def register(
        self,
        name: str,
        version: str,
        schema: Mapping[str, object],
        endpoints: Sequence[Mapping[str, object]],
        budget: Mapping[str, object],
        idempotency_key: str | None = None,
    ) -> Call[Ensemble]:
        """Register the lender's models behind endpoints, with their budget, or replace what has the name."""
        body = {"name": name, "version": version, "schema": schema, "endpoints": list(endpoints), "budget": budget}
        return _call(Ensemble, "POST", "/ensembles", body, idempotency_key=idempotency_key)

    @_Method
    def ensembles(self, limit: int = 100, cursor: str | None = None) -> Call[Page[Ensemble]]:
        """The lender's models."""
        return _call(Page[Ensemble], "GET", "/ensembles", params={"limit": limit, "cursor": cursor})

    @_Method
    def predict(
        self,
        ensemble: str,
        records: Sequence[Mapping[str, Value]],
        deadline_ms: int | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Predictions]:
        """Put records to the lender's models; each is one query, unless its answer was bought before."""
        body = {"records": list(records), "deadline_ms": deadline_ms}
        return _call(Predictions, "POST", f"/ensembles/{ensemble}/predict", body, idempotency_key=idempotency_key)

    @_Method
    def budgets(self, limit: int = 100, cursor: str | None = None) -> Call[Page[Budget]]:
        """Budgets of the present period."""
        return _call(Page[Budget], "GET", "/budgets", params={"limit": limit, "cursor": cursor})

    @_Method
    def set_budget(self, ensemble: str, limit: int, period: str | None = None, restart: bool = False) -> Call[Budget]:
        """Set how often the lender's models may be asked: in all, or in each day or month."""
        return _call(Budget, "PUT", f"/budgets/{ensemble}", {"limit": limit, "period": period, "restart": restart})

    @_Method
    def correct_budget(
        self,
        ensemble: str,
        queries: int,
        reason: str,
        reverses: int | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Budget]:
        """Give used queries back (below 0) or add some; reverses: the ledger's entry that this takes back."""
        body = {"queries": queries, "reason": reason, "reverses": reverses}
        return _call(Budget, "POST", f"/budgets/{ensemble}/corrections", body, idempotency_key=idempotency_key)

    @_Method
    def usage(
        self, ensemble: str, step: str | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> Call[Usage]:
        """Queries over time; step: hour or day."""
        times = {name: at and at.isoformat() for name, at in (("since", since), ("until", until))}
        return _call(Usage, "GET", f"/budgets/{ensemble}/usage", params={"step": step, **times})

    @_Method
    def ledger(self, ensemble: str, limit: int = 100, cursor: str | None = None) -> Call[Page[Entry]]:
        """Every change of a budget."""
        return _call(Page[Entry], "GET", f"/budgets/{ensemble}/ledger", params={"limit": limit, "cursor": cursor})

    @_Method
    def ledger_csv(self, ensemble: str) -> Call[str]:
        """Every change of a budget, as CSV."""
        return Call(lambda answer: answer.text, "GET", f"/budgets/{ensemble}/ledger", {"params": {"format": "csv"}})

    @_Method
    def make_key(
        self, name: str, role: str | None = None, expires_at: datetime | None = None, idempotency_key: str | None = None
    ) -> Call[NewKey]:
        """Make an API key; role: viewer, client, analyst or admin."""
        chosen = {"role": role, "expires_at": None if expires_at is None else expires_at.isoformat()}
        body = {"name": name} | {key: value for key, value in chosen.items() if value}
        return _call(NewKey, "POST", "/keys", body, idempotency_key=idempotency_key)

    @_Method
    def keys(self, limit: int = 100, cursor: str | None = None) -> Call[Page[Key]]:
        """API keys, without their texts."""
        return _call(Page[Key], "GET", "/keys", params={"limit": limit, "cursor": cursor})

    @_Method
    def revoke_key(self, key_id: UUID) -> Call[None]:
        """The key is not taken any more."""
        return Call(lambda answer: None, "DELETE", f"/keys/{key_id}", {})

    @_Method
    def readiness(self) -> Call[Readiness]:
        """Which parts of the service are ready."""
        return _call(Readiness, "GET", "/readyz", any_status=True)

    @_Method
    def metrics(self) -> Call[str]:
        """The metrics of the service, as Prometheus reads them."""
        return Call(lambda answer: answer.text, "GET", "/metrics", {})
