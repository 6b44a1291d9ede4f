"""Attacks by lenders, and by tenants with many of them: late answers, answers twice, many servers."""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count

import httpx

from app.db.tables import Role
from benchmarks.hostile.lenders import LATE, TWICE, TWICE_WITH_ID, WELL, registration
from benchmarks.hostile.site import LENDERS, Site, sent
from benchmarks.hostile.verdict import Seen

CALLERS_EACH, PREDICTIONS = 80, 600
NUMBERS = count(1)
"""Each record is asked once in the life of a service: no answer comes from what was bought before."""


def call_slow_lenders(site: Site, seconds: float) -> Seen:
    """Two tenants whose lenders take three seconds, with more callers each than there are threads for lenders."""
    names = _register(site, LATE, 1)
    end, statuses = time.monotonic() + seconds, Counter[int]()

    def call(caller: int) -> None:
        tenant = site.hostile[caller % 2]
        with site.client(tenant, Role.CLIENT, seconds=60) as http:
            while time.monotonic() < end:
                statuses[_predict(http, names[0], max(0.5, end - time.monotonic()))[0]] += 1

    _all_at_once(call, 2 * CALLERS_EACH)
    return Seen({"callers": 2 * CALLERS_EACH} | _told(statuses))


def call_many_lenders(site: Site, seconds: float) -> Seen:
    """600 predictions over 40 lenders, each a server of its own; registering them anew retires what was open."""
    end, turns, statuses = time.monotonic() + seconds, count(), Counter[int]()
    names = _register(site, WELL, LENDERS)

    def call(_: int) -> None:
        with site.client(site.hostile[0], Role.CLIENT) as http:
            while (turn := next(turns)) < PREDICTIONS and time.monotonic() < end + 20:
                statuses[_predict(http, names[turn % LENDERS], 20.0)[0]] += 1

    _all_at_once(call, 16)
    _register(site, WELL, LENDERS, version="2")
    wrong = {status: number for status, number in statuses.items() if status != httpx.codes.OK}
    return Seen({"lenders": LENDERS, "predictions": statuses.total()}, [f"{wrong} was answered"] if wrong else [])


def call_lenders_that_answer_twice(site: Site, seconds: float) -> Seen:
    """Each record has an answer of its own: one that is another record's shows."""
    names = [_register(site, behaviour, 1)[0] for behaviour in (TWICE, TWICE_WITH_ID)]
    end, answers = time.monotonic() + seconds, Counter[str]()

    def call(caller: int) -> None:
        with site.client(site.hostile[0], Role.CLIENT) as http:
            while time.monotonic() < end:
                status, right = _predict(http, names[caller % 2], 20.0)
                answers["right" if right else "swapped" if status == httpx.codes.OK else "no answer"] += 1

    _all_at_once(call, 8)
    faults = [f"{answers['swapped']} answers were another record's"] if answers["swapped"] else []
    if not answers["right"]:
        faults.append("nobody was answered")
    return Seen({name: answers[name] for name in ("right", "swapped", "no answer")}, faults)


def _register(site: Site, behaviour: str, number: int, version: str = "1") -> list[str]:
    """So many lenders of each hostile tenant; their names."""
    names = [f"{behaviour.replace('_', '-')}-{one}" for one in range(number)]
    with ExitStack() as stack:
        for tenant in site.hostile:
            http = stack.enter_context(site.client(tenant))
            for name, port in zip(names, site.lenders, strict=False):
                body = registration(name, port, behaviour) | {"version": version}
                sent(http.post("/ensembles", json=body), 201)
    return names


def _predict(http: httpx.Client, name: str, seconds: float) -> tuple[int, bool]:
    """The status, 0 without an answer, and whether the answer is this record's."""
    amount = (next(NUMBERS) % 100_000) / 10_000
    try:
        answer = http.post(f"/ensembles/{name}/predict", json={"records": [{"amount": amount}]}, timeout=seconds)
    except httpx.HTTPError:
        return 0, False
    if answer.status_code != httpx.codes.OK:
        return answer.status_code, False
    (prediction,) = answer.json()["predictions"]
    said = prediction["probabilities"]["model"]
    return answer.status_code, said is not None and abs(said[1] - amount / 10) < 1e-9


def _all_at_once(call: Callable[[int], None], callers: int) -> None:
    with ThreadPoolExecutor(callers) as threads:
        list(threads.map(call, range(callers)))


def _told(statuses: "Counter[int]") -> dict[str, float]:
    return {f"status {status}" if status else "unanswered": count for status, count in sorted(statuses.items())}
