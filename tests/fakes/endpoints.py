"""An HTTP server that speaks the Open Inference Protocol v2 well or badly: the model's name says how."""

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from threading import Event, Thread
from typing import Any

from tests.patience import BOUND, wait_until


class HostileServer(ThreadingHTTPServer):
    """Remembers each request as (path, Authorization), and counts connections; `stop` ends the endless answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None]] = []
        self.connections = 0
        self.stop = Event()
        self.behaviour: str | None = None

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class Handler(BaseHTTPRequestHandler):
    """One method a behaviour; /v2/models/{behaviour}/infer."""

    server: HostileServer
    protocol_version = "HTTP/1.1"
    request: dict[str, Any]

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.request = request = json.loads(self.rfile.read(length))
        self.server.requests.append((self.path, self.headers["Authorization"]))
        behaviour = self.server.behaviour or self.path.split("/")[-2]
        rows = request["inputs"][0]["shape"][0]
        try:
            getattr(self, f"answer_{behaviour}")(rows, [output["name"] for output in request["outputs"]])
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    do_GET = do_POST

    def answer_good(self, rows: int, names: list[str]) -> None:
        self._json(_response(rows, names))

    def answer_mirror(self, rows: int, names: list[str]) -> None:
        """Each record has an answer of its own, and the request's id comes back."""
        self._json(self._mirrored(rows, names) | {"id": self.request.get("id", "none was sent")})

    def answer_nameless(self, rows: int, names: list[str]) -> None:
        """As many servers do: without the request's id."""
        self._json(self._mirrored(rows, names))

    def answer_foreign(self, rows: int, names: list[str]) -> None:
        self._json(self._mirrored(rows, names) | {"id": "of another request"})

    def answer_twice(self, rows: int, names: list[str]) -> None:
        """The next request on the connection finds an answer before it was asked."""
        self.answer_nameless(rows, names)
        self.answer_nameless(rows, names)

    def answer_twice_with_id(self, rows: int, names: list[str]) -> None:
        self.answer_mirror(rows, names)
        self.answer_mirror(rows, names)

    def answer_two_at_once(self, rows: int, names: list[str]) -> None:
        """Both answers in one packet: they are in the client's buffer together."""
        self.wfile, sent = BytesIO(), self.wfile
        self.answer_twice_with_id(rows, names)
        sent.write(self.wfile.getvalue())
        self.wfile = sent

    def _mirrored(self, rows: int, names: list[str]) -> dict[str, Any]:
        accepted = [(value or 0) / 10 for value in self.request["inputs"][0]["data"]]
        data = [share for one in accepted for share in (1 - one, one)]
        shape = [rows, 2]
        return {"outputs": [{"name": name, "shape": shape, "datatype": "FP64", "data": data} for name in names]}

    def answer_nested(self, rows: int, names: list[str]) -> None:
        response = _response(rows, names)
        for output in response["outputs"]:
            output["data"] = [[0.25, 0.75]] * rows
        self._json(response)

    def answer_one_missing(self, rows: int, names: list[str]) -> None:
        self._json(_response(rows, names[1:]))

    def answer_transposed(self, rows: int, names: list[str]) -> None:
        response = _response(rows, names)
        for output in response["outputs"]:
            output["shape"] = [2, rows]
        self._json(response)

    def answer_short(self, rows: int, names: list[str]) -> None:
        response = _response(rows, names)
        for output in response["outputs"]:
            output["data"] = [0.25]
        self._json(response)

    def answer_text(self, rows: int, names: list[str]) -> None:
        response = _response(rows, names)
        for output in response["outputs"]:
            output["data"] = ["no", "numbers"] * rows
        self._json(response)

    def answer_huge(self, rows: int, names: list[str]) -> None:
        response = _response(rows, names)
        for output in response["outputs"]:
            output["data"] = [10**400, 0] * rows
        self._json(response)

    def answer_odd_type(self, rows: int, names: list[str]) -> None:
        response = _response(rows, names)
        for output in response["outputs"]:
            output["datatype"] = ["FP64"]
        self._json(response)

    def answer_no_outputs(self, rows: int, names: list[str]) -> None:
        self._json({"model_name": "m"})

    def answer_garbage(self, rows: int, names: list[str]) -> None:
        self._send(200, b"<html>", {})

    def answer_deep(self, rows: int, names: list[str]) -> None:
        self._send(200, b"[" * 100_000, {})

    def answer_status_500(self, rows: int, names: list[str]) -> None:
        self._send(500, b"the secret token is in this body", {})

    def answer_status_404(self, rows: int, names: list[str]) -> None:
        self._send(404, b"", {})

    def answer_redirect(self, rows: int, names: list[str]) -> None:
        self._send(307, b"", {"Location": f"http://127.0.0.1:{self.server.port}/v2/models/good/infer"})

    def answer_compressed(self, rows: int, names: list[str]) -> None:
        self._send(200, b"x", {"Content-Encoding": "gzip"})

    def answer_oversized(self, rows: int, names: list[str]) -> None:
        self._send(200, b"", {"Content-Length": str(10**12), "Connection": "close"})

    def answer_endless(self, rows: int, names: list[str]) -> None:
        self._head_without_length()
        while not self.server.stop.is_set():
            self.wfile.write(b" " * 65536)

    def answer_drip(self, rows: int, names: list[str]) -> None:
        self._head_without_length()
        while not self.server.stop.wait(0.05):
            self.wfile.write(b" ")

    def answer_drip_headers(self, rows: int, names: list[str]) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not self.server.stop.wait(0.05):
            self.wfile.write(b"X-More: 1\r\n")

    def answer_silence(self, rows: int, names: list[str]) -> None:
        self.server.stop.wait(BOUND)

    def answer_together(self, rows: int, names: list[str]) -> None:
        """When three have asked, and not before."""
        wait_until(lambda: len(self.server.requests) >= 3 or self.server.stop.is_set())
        self._json(_response(rows, names))

    def answer_slow(self, rows: int, names: list[str]) -> None:
        time.sleep(0.3)
        self._json(_response(rows, names))

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: pytest's output is for failures."""

    def _json(self, document: Mapping[str, object]) -> None:
        self._send(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _head_without_length(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()


def _response(rows: int, names: list[str]) -> dict[str, Any]:
    shape, data = [rows, 2], [0.25, 0.75] * rows
    return {"outputs": [{"name": name, "shape": shape, "datatype": "FP64", "data": data} for name in names]}


@contextmanager
def serving(tls: ssl.SSLContext | None = None, server: HostileServer | None = None) -> Iterator[HostileServer]:
    """The server on a free port of the loopback, in a thread."""
    server = server or HostileServer()
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.stop.set()
        server.shutdown()
        thread.join()
        server.server_close()
