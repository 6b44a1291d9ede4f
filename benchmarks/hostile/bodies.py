"""Attacks by bodies: small files that unpack to much, large documents, more uploads than there are threads."""

import io
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.db.tables import Role
from benchmarks.hostile.connections import cancel_all
from benchmarks.hostile.site import FAST, MODEL, Site
from benchmarks.hostile.verdict import Seen

BOMB_COLUMNS, BOMB_ROWS = 400, 2_000_000
UNKNOWN_FIELDS = 1_100_000
NESTED_BYTES = OVERRIDE_BYTES = 15 * 10**6
WIDTH, READERS = 490, 30
UPLOADERS, UPLOAD_ROWS = 24, 60_000
LARGEST_OVERRIDES = 190_000
"""Taken as they are."""
LIST_BYTES = 2 * 10**6
AS_JSON = {"Content-Type": "application/json"}
GONE = 0


def send_bombs(site: Site, seconds: float) -> Seen:
    """A Parquet file of less than 2 MB with 800 million missing values, by two senders at once."""
    bomb = parquet_bomb()

    def upload(http: httpx.Client) -> int:
        return http.post("/datasets", files={"file": ("loans.parquet", bomb)}, data={"label": "c0"}).status_code

    statuses = _repeat(site, Role.ANALYST, seconds, [upload, upload])
    return _refused(statuses, {"file MB": round(len(bomb) / 1e6, 1)})


@cache
def parquet_bomb(columns: int = BOMB_COLUMNS, rows: int = BOMB_ROWS) -> bytes:
    """So many missing values; a row group's columns are runs of one value, which take a few bytes a page."""
    nulls, file = pa.nulls(rows // 10, pa.float64()), io.BytesIO()
    schema = pa.schema([(f"c{number}", pa.float64()) for number in range(columns)])
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for _ in range(10):
            writer.write_table(pa.Table.from_arrays([nulls] * columns, schema=schema), row_group_size=rows)
    return file.getvalue()


def send_unknown_fields(site: Site, seconds: float) -> Seen:
    """13 MB of fields that nobody knows, to each call that takes records, and to a training."""
    body = b'{"target": "approved", ' + b",".join(b'"f%d":0' % number for number in range(UNKNOWN_FIELDS)) + b"}"
    return _send_documents(site, seconds, [body])


def send_nested_lists(site: Site, seconds: float) -> Seen:
    """15 MB of lists, beside each other and within each other, also from keys that may not."""
    flat = b'{"model": "m", "target": "yes", "records": [' + b"[]," * (NESTED_BYTES // 3) + b"[]]}"
    deep = (
        b'{"model": "m", "target": "yes", "records": ' + b"[" * (NESTED_BYTES // 2) + b"]" * (NESTED_BYTES // 2) + b"}"
    )
    return _send_documents(site, seconds, [flat, deep])


def _send_documents(site: Site, seconds: float, bodies: Sequence[bytes]) -> Seen:
    paths = ("/explain", f"/ensembles/{FAST}/predict", f"/v1/models/{MODEL}:explain", "/train")

    posts = [_post(path, body) for path in paths for body in bodies]
    statuses = _repeat(site, Role.CLIENT, seconds * 0.7, posts[: len(posts) // 2], posts[len(posts) // 2 :])
    statuses += _repeat(site, Role.VIEWER, seconds * 0.3, posts)
    return _refused(statuses, {"body MB": round(len(bodies[0]) / 1e6)})


def send_wide_records(site: Site, seconds: float) -> Seen:
    """The largest bodies that are taken: a thousand records of five hundred fields, of which none is known."""
    record = ",".join(f'"field {number}":{number}' for number in range(WIDTH))
    records = ",".join([f"{{{record}}}"] * 1_000)
    bodies = [f'{{"model":"{MODEL}","target":"approved","records":[{records}]}}', f'{{"records":[{records}]}}']
    paths = ("/explain", f"/ensembles/{FAST}/predict")
    posts = [_post(path, body.encode()) for path, body in zip(paths, bodies, strict=True)]
    statuses = _repeat(site, Role.CLIENT, seconds, *([[post] for post in posts] * 4))
    return Seen({"body MB": round(len(bodies[0]) / 1e6)} | _told(statuses), _failed(statuses))


def read_lists(site: Site, seconds: float) -> Seen:
    """Many clients of one tenant that read the longest pages, and the ledger as CSV, as fast as they can."""
    paths = (f"/budgets/{FAST}/ledger?limit=500", f"/budgets/{FAST}/ledger?format=csv", "/jobs?limit=500")

    def get(path: str) -> Send:
        return lambda http: http.get(path).status_code

    statuses = _repeat(site, Role.VIEWER, seconds, *([[get(path)] for path in paths] * (READERS // 3)))
    return Seen({"readers": READERS} | _told(statuses), _failed(statuses))


def send_overrides(site: Site, seconds: float) -> Seen:
    """15 MB of overrides, then as many of the largest that are taken as a tenant may queue."""
    tenant = site.hostile[0]

    def overrides(size: int) -> Send:
        features = {"purpose": {"categories": [f"category {number:7}" for number in range(size // 20)]}}
        body = json.dumps({"model": "kept", "dataset": tenant.dataset, "overrides": {"features": features}}).encode()
        return lambda http: http.post("/train", content=body, headers=AS_JSON).status_code

    statuses = _repeat(site, Role.ANALYST, seconds, [overrides(OVERRIDE_BYTES)], [overrides(LARGEST_OVERRIDES)])
    with site.client(tenant) as http:
        listed = http.get("/jobs", params={"limit": 500})
        cancel_all(http)
    seen = _refused(
        statuses, {"list of jobs kB": round(len(listed.content) / 1e3)}, taken=site.settings.max_queued_jobs
    )
    if len(listed.content) > LIST_BYTES:
        seen.faults.append(f"the list of jobs has {len(listed.content)} bytes")
    return seen


def upload_without_end(site: Site, seconds: float) -> Seen:
    """Tables of 8 MB from many clients of one tenant at once."""
    random = np.random.default_rng(0)
    lines = [",".join(map(str, row)) for row in random.integers(0, 10**6, (UPLOAD_ROWS, 20)).tolist()]
    table = "\n".join([",".join(f"c{number}" for number in range(20)), *lines])

    def upload(http: httpx.Client) -> int:
        return http.post("/datasets", files={"file": ("loans.csv", table)}).status_code

    statuses = _repeat(site, Role.ANALYST, seconds, *([[upload]] * UPLOADERS))
    return Seen({"uploaders": UPLOADERS, "MB each": round(len(table) / 1e6)} | _told(statuses))


def _post(path: str, body: bytes) -> "Send":
    return lambda http: http.post(path, content=body, headers=AS_JSON).status_code


Send = Callable[[httpx.Client], int]


def _repeat(site: Site, role: Role, seconds: float, *senders: Sequence[Send]) -> "Counter[int]":
    """Each sender does what it has to again and again, all at once; the statuses, 0 where there was no answer in time.

    What is under way at the end is given up: the connections are closed.
    """
    end = time.monotonic() + seconds
    statuses = Counter[int]()

    def work(sends: Sequence[Send]) -> None:
        with site.client(site.hostile[0], role, seconds) as http:
            while time.monotonic() < end:
                for send in sends:
                    if (left := end - time.monotonic()) <= 0:
                        return
                    http.timeout = httpx.Timeout(left)
                    status = GONE
                    with suppress(httpx.HTTPError):
                        status = send(http)
                    statuses[status] += 1

    with ThreadPoolExecutor(len(senders)) as threads:
        list(threads.map(work, senders))
    return statuses


def _told(statuses: "Counter[int]") -> dict[str, float]:
    return {f"status {status}" if status else "unanswered": count for status, count in sorted(statuses.items())}


def _failed(statuses: "Counter[int]") -> list[str]:
    """What no client can bring about but by a fault of the service; 503: it is busy."""
    return [f"{count} x status {status}" for status, count in statuses.items() if status >= 500 and status != 503]


def _refused(statuses: "Counter[int]", figures: dict[str, float], taken: int = 0) -> Seen:
    """All of it was to be refused, but for so many."""
    faults = _failed(statuses)
    accepted = sum(count for status, count in statuses.items() if 200 <= status < 300)
    if accepted > taken:
        faults.append(f"{accepted} were taken")
    if not any(400 <= status < 500 for status in statuses):
        faults.append("none was refused")
    return Seen(figures | _told(statuses), faults)
