"""The files and functions that one warm POST /explain passes: `python -m benchmarks.service.walk VAR_DIR`.

VAR_DIR is the folder `var/` of a service that has explained before (`make demo ONCE=1` leaves one); the service runs in
this process, over HTTP. One record is asked for without queries, a few times to warm up; then the calls of all threads
are noted while the last request is answered. Generated code and comprehensions do not count.
"""

import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

ROOTS = ("app", "client", "models", "worker")
NO_FUNCTIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>")
WARM_UP = 5
PORT = 8497
REQUEST = {"model": "loans", "target": "approved", "robustness": {"max_queries": 0}}


class Walk:
    """What is called while it notes."""

    def __init__(self) -> None:
        self.noting = False
        self.seen: dict[CodeType, str] = {}
        tree = Path(sys.modules["app"].__path__[0]).parent
        self._prefixes = {f"{tree / root}{os.sep}": root for root in ROOTS}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if self.noting and event == "call" and code not in self.seen and code.co_name not in NO_FUNCTIONS:
            self.seen[code] = next((root for prefix, root in self._prefixes.items() if self._is_in(code, prefix)), "")

    @staticmethod
    def _is_in(code: CodeType, prefix: str) -> bool:
        return code.co_filename.startswith(prefix)

    def functions(self) -> list[tuple[str, str, int, str]]:
        """Root, file, line and name of each function of ours."""
        ours = [(code, root) for code, root in self.seen.items() if root]
        return sorted({(root, code.co_filename, code.co_firstlineno, code.co_qualname) for code, root in ours})


def report(walk: Walk) -> str:
    """The files with the number of functions passed in each, and the sums."""
    functions = walk.functions()
    files = Counter((root, file) for root, file, _, _ in functions)
    lines = [f"{count:4} {root + file.partition(f'/{root}')[2]}" for (root, file), count in sorted(files.items())]
    for root in ROOTS:
        passed = sum(count for (of, _), count in files.items() if of == root)
        lines.append(f"{root}: {sum(of == root for of, _ in files)} files, {passed} functions")
    return "\n".join([*lines, f"together: {len(files)} files, {len(functions)} functions"])


def refused_record() -> dict[str, object]:
    """An applicant of the made-up loans; one that was refused."""
    from models.datasets.loans import loans

    dataset = loans(50, seed=9)
    frame = dataset.frame[dataset.frame[dataset.label] != REQUEST["target"]].drop(columns=[dataset.label])
    found: dict[str, object] = json.loads(frame.iloc[0].to_json())
    return found


def ask(key: str, record: dict[str, object]) -> bytes:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    body = json.dumps({**REQUEST, "records": [record]}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/explain", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def _wait() -> None:
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
        else:
            return


def trace(walk: Walk, key: str) -> None:
    """In a thread of its own, which is not traced."""
    sys.setprofile(None)
    record = refused_record()
    _wait()
    for _ in range(WARM_UP):
        answer = json.loads(ask(key, record))["explanations"][0]
    walk.noting = True
    ask(key, record)
    walk.noting = False
    sys.stdout.write(f"{answer['status']}\n{report(walk)}\n")
    if "-v" in sys.argv:
        sys.stdout.writelines(f"{file}:{line} {name}\n" for _, file, line, name in walk.functions())
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGINT)


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["RECOURSE_VAR_DIR"] = str(folder)
    from app.cli import main as recourse

    walk = Walk()
    key = (folder / "admin.key").read_text().strip()
    threading.Thread(target=trace, args=(walk, key), daemon=True).start()
    threading.setprofile(walk)
    sys.setprofile(walk)
    recourse(["serve", "--port", str(PORT)])


if __name__ == "__main__":
    main()
