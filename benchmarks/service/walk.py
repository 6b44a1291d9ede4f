"""The files and functions that one warm POST /explain passes: `python -m benchmarks.service.walk VAR_DIR [KEY]`.

VAR_DIR is the folder `var/` of a service with a model of the loans (`make demo ONCE=1` leaves one), KEY a key of that
model's tenant, by default the one in VAR_DIR/admin.key. The service runs in this process. One record is asked for over
HTTP without queries, a few times to warm up; then the calls of all threads are noted until the next answer is there.
Comprehensions and generated code are no functions. `-v` also lists the functions.
"""

import json
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread, setprofile
from types import CodeType, FrameType

import httpx

ROOT = Path(__file__).parents[2]
FOLDERS = ("app", "client", "models", "worker")
NO_FUNCTIONS = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>"})
WARM_UP = 5
REQUEST = {"model": "loans", "target": "approved", "robustness": {"max_queries": 0}}


class Walk:
    """A profile function: the code that is called while it notes."""

    def __init__(self) -> None:
        self.noting = False
        self._seen: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if self.noting and event == "call":
            self._seen.add(frame.f_code)

    def functions(self) -> Iterator[tuple[Path, CodeType]]:
        """The functions of ours, each with its file from the project's root."""
        for code in self._seen:
            file = Path(code.co_filename)
            place = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
            if place.parts[0] in FOLDERS and code.co_name not in NO_FUNCTIONS:
                yield place, code


def report(walk: Walk, detailed: bool) -> str:
    """The functions in each file, and the sums of each folder."""
    functions = sorted(walk.functions(), key=lambda one: (one[0], one[1].co_firstlineno))
    files = Counter(place for place, _ in functions)
    lines = [f"{place}:{code.co_firstlineno} {code.co_qualname}" for place, code in functions] if detailed else []
    lines += [f"{count:4} {place}" for place, count in files.items()]
    for folder in FOLDERS:
        counts = [count for place, count in files.items() if place.parts[0] == folder]
        lines.append(f"{folder}: {len(counts)} files, {sum(counts)} functions")
    return "\n".join([*lines, f"together: {len(files)} files, {len(functions)} functions"])


def applicant() -> dict[str, object]:
    """One of the made-up loans that was refused."""
    from models.datasets.loans import loans

    data = loans(50, seed=9)
    frame = data.frame[data.frame[data.label] != REQUEST["target"]].drop(columns=[data.label])
    record: dict[str, object] = json.loads(frame.iloc[0].to_json())
    return record


def trace(walk: Walk, url: str, key: str) -> None:
    """Ask, note, print, and end the service; in a thread of its own, which is not profiled."""
    sys.setprofile(None)
    body = REQUEST | {"records": [applicant()]}
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as http:
        _wait_for(http)
        for _ in range(WARM_UP):
            http.post("/explain", json=body).raise_for_status()
        walk.noting = True
        http.post("/explain", json=body).raise_for_status()
        walk.noting = False
    sys.stdout.write(f"{report(walk, '-v' in sys.argv)}\n")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGINT)


def _wait_for(http: httpx.Client) -> None:
    while True:
        try:
            if http.get("/readyz").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)


def main() -> None:
    folder, *key = [argument for argument in sys.argv[1:] if argument != "-v"]
    os.environ["RECOURSE_VAR_DIR"] = folder
    from app.cli import main as recourse

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    walk, admin_key = Walk(), Path(folder) / "admin.key"
    sent = key[0] if key else admin_key.read_text().strip()
    Thread(target=trace, args=(walk, f"http://127.0.0.1:{port}", sent), daemon=True).start()
    setprofile(walk)
    sys.setprofile(walk)
    recourse(["serve", "--port", port])


if __name__ == "__main__":
    main()
