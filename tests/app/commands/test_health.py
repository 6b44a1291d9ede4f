"""`recourse health`, which containers run: 0 if the process is ready, 1 and the reason if it is not, or not there."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from typer.testing import CliRunner

from app.cli import app


@contextmanager
def answering(status: int, text: str) -> Iterator[int]:
    """The port of a server whose /readyz says so."""

    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path.startswith("/readyz") else 404)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
@pytest.mark.parametrize(("process", "setting"), [("api", "SERVE"), ("worker", "EXPLAINER")])
def test_the_exit_code_says_whether_it_is_ready(
    process: str, setting: str, status: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(status, "no worker answers") as port:
        monkeypatch.setenv(f"RECOURSE_{setting}_PORT", str(port))
        found = CliRunner().invoke(app, ["health", process])
    assert (found.exit_code, found.output) == (code, "no worker answers\n")
    gone = CliRunner().invoke(app, ["health", process])
    assert gone.exit_code == 1 and f"port {port} does not answer" in gone.output
