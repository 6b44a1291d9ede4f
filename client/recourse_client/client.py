"""Clients of the recourse service over HTTP: every call, typed; errors as one sentence; live progress of trainings.

`RecourseClient` waits, `AsyncRecourseClient` is awaited; both have the methods that calls.py lists.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Self, TypeVar
from uuid import UUID

import httpx

from recourse_client.calls import Call, Calls, ClientError, host_of
from recourse_client.types import Event

T = TypeVar("T")
ENDED = frozenset({"done", "failed", "cancelled"})
"""States of a job that has ended."""


class RecourseClient(Calls):
    """One service, one key. Every method is one call; ClientError carries what the service said.

    >>> with RecourseClient("http://127.0.0.1:8000", key) as client:  # doctest: +SKIP
    ...     answer = client.explain("loans", [{"age": 31, "income": 24000}], target="approved")
    ...     for explanation in answer.explanations:
    ...         print(explanation.status, [way.changes for way in explanation.counterfactuals])
    """

    def __init__(self, url: str, key: str, seconds: float = 300.0) -> None:
        """`seconds`: how long an answer is waited for."""
        self._http = httpx.Client(**_settings(url, key, seconds))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def run(self, call: Call[T]) -> T:
        request = _request(self._http, call)
        try:
            return _read(call, self._http.send(request))
        except httpx.TransportError as error:
            raise _no_answer(request, error) from error

    def ready(self) -> bool:
        """Whether the service answers, and can answer requests now."""
        try:
            return self.readiness().ready
        except ClientError:
            return False

    def follow(self, job_id: UUID) -> Iterator[Event]:
        """The job's events as they happen, until it has ended; a stream that breaks off is taken up again."""
        last = "0"
        while True:
            try:
                with self._http.stream("GET", f"/jobs/{job_id}/events", headers=_stream_headers(last)) as answer:
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


class AsyncRecourseClient(Calls):
    """The same, awaited: `answer = await client.explain("loans", records, target="approved")`."""

    def __init__(self, url: str, key: str, seconds: float = 300.0) -> None:
        self._http = httpx.AsyncClient(**_settings(url, key, seconds))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def run(self, call: Call[T]) -> T:
        request = _request(self._http, call)
        try:
            return _read(call, await self._http.send(request))
        except httpx.TransportError as error:
            raise _no_answer(request, error) from error

    async def ready(self) -> bool:
        """Whether the service answers, and can answer requests now."""
        try:
            return (await self.readiness()).ready
        except ClientError:
            return False

    async def follow(self, job_id: UUID) -> AsyncIterator[Event]:
        """The job's events as they happen, until it has ended; a stream that breaks off is taken up again."""
        last = "0"
        while True:
            try:
                async with self._http.stream("GET", f"/jobs/{job_id}/events", headers=_stream_headers(last)) as answer:
                    if answer.is_error:
                        await answer.aread()
                        raise _problem(answer)
                    reader = EventReader()
                    async for line in answer.aiter_lines():
                        if event := reader.feed(line):
                            last = event.id or last
                            yield event
            except httpx.TransportError:
                pass
            if (await self.job(job_id)).state in ENDED:
                return


class EventReader:
    """Server-sent events, line by line; comments, which keep the line open, are passed over."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def feed(self, line: str) -> Event | None:
        """The event that the line ends."""
        if not line:
            fields, self._fields = self._fields, {}
            if "data" not in fields:
                return None
            return Event(id=fields.get("id", ""), kind=fields.get("event", "message"), data=json.loads(fields["data"]))
        name, _, text = line.partition(":")
        if name:
            text = text.removeprefix(" ")
            # Data of several lines is one text.
            known = name == "data" and "data" in self._fields
            self._fields[name] = f"{self._fields[name]}\n{text}" if known else text
        return None


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a stream."""
    reader = EventReader()
    return (event for line in lines if (event := reader.feed(line)))


def _settings(url: str, key: str, seconds: float) -> dict[str, Any]:
    if not (key.isascii() and key.isprintable()):
        raise ClientError("the key holds a character that no key has: copy it again")
    try:
        base = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ClientError(f"'{url}' is no address ({error}): write it as http://127.0.0.1:8000") from error
    return {"base_url": base, "headers": {"Authorization": f"Bearer {key}"}, "timeout": seconds}


def _stream_headers(last: str) -> dict[str, str]:
    return {"Last-Event-ID": last, "Accept": "text/event-stream"}


def _request(http: httpx.Client | httpx.AsyncClient, call: Call[T]) -> httpx.Request:
    try:
        return http.build_request(call.method, call.path, **call.options)
    except (TypeError, ValueError) as error:
        advice = "send plain texts and numbers, and None for a missing value"
        raise ClientError(f"the request cannot be written as JSON ({error}): {advice}") from error


def _read(call: Call[T], answer: httpx.Response) -> T:
    if answer.is_error and not call.any_status:
        raise _problem(answer)
    return call.read(answer)


def _problem(answer: httpx.Response) -> ClientError:
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the service answered {answer.status_code}"
    return ClientError(detail, answer.status_code)


def _no_answer(request: httpx.Request, error: httpx.TransportError) -> ClientError:
    return ClientError(f"{host_of(request)} did not answer ({error}): check that the service runs there")
