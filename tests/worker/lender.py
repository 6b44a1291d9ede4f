"""A lender whose scorecards speak the Open Inference Protocol v2, from a thread, and count each record."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

import numpy as np
from numpy.typing import NDArray

from app.db.tables import utc_now
from app.ensembles import directory
from app.ensembles.directory import describe
from app.ensembles.endpoint import Endpoint, Layout
from models.arrays import Records
from models.data.infer import infer_schema
from models.data.schema import Schema
from models.datasets.loans import loans
from tests.servers.worker import ROWS, Site

MEMBERS = ("strict", "mild")
LIMIT = 1000


def two_slopes(records: Records) -> NDArray[np.float64]:
    """records (n, F) -> the chance of the first class by each of two members (2, n), which knows nothing of labels"""
    score = np.nan_to_num(records / (1.0 + np.abs(records))) @ np.linspace(-1.0, 1.0, records.shape[1])
    return np.stack([1.0 / (1.0 + np.exp(-slope * score)) for slope in (2.0, 5.0)])


class Lender(ThreadingHTTPServer):
    """`seen` counts the records that it was asked, each one as often as it was asked; `score` answers for them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: dict[str, int] = {}
        self.score: Callable[[Records], NDArray[np.float64]] = two_slopes
        self.lock = Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """/v2/models/{model}/infer; the models differ in nothing but their name."""

    server: Lender

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        rows, features = request["inputs"][0]["shape"]
        model = self.path.split("/")[-2]
        with self.server.lock:
            self.server.seen[model] = self.server.seen.get(model, 0) + rows
        records = np.array(request["inputs"][0]["data"], dtype=np.float64).reshape(rows, features)
        outputs = []
        for output, approved in zip(request["outputs"], self.server.score(records), strict=True):
            data = np.stack([approved, 1.0 - approved], axis=1).ravel().tolist()
            outputs.append({"name": output["name"], "shape": [rows, 2], "datatype": "FP64", "data": data})
        body = json.dumps({"model_name": model, "outputs": outputs}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: pytest's output is for failures."""


@contextmanager
def lending() -> Iterator[Lender]:
    """The lender on a free port of the loopback, in a thread."""
    lender = Lender()
    thread = Thread(target=lender.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield lender
    finally:
        lender.shutdown()
        thread.join()
        lender.server_close()


def register(
    site: Site, lender: Lender, name: str, schema: Schema | None = None, members: tuple[str, ...] = MEMBERS
) -> int:
    """The lender's model of that name as an ensemble of the same name, with a budget; its id."""
    dataset, tenant_id = loans(ROWS, seed=3), site.customer.tenant_id
    schema = schema or infer_schema(dataset.frame, dataset.label)
    endpoint = Endpoint(lender.url, name, members, layout=Layout.MATRIX)
    with site.database.writing() as connection:
        ensemble_id = directory.add_ensemble(connection, tenant_id, name, "1", utc_now())
        directory.describe_remote(connection, tenant_id, ensemble_id, "1", schema.to_json(), [describe(endpoint)], None)
    site.ledger.set_limit(tenant_id, ensemble_id, LIMIT)
    return ensemble_id


def reachable(lender: Lender) -> dict[str, object]:
    """The settings that let a trainer call it."""
    hosts = (lender.url.removeprefix("http://"),)
    return {"blackbox_hosts": hosts, "blackbox_networks": ("127.0.0.0/8",), "blackbox_plain_http": True}
