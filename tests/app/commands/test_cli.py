"""The command line as a whole: help at once, no torch where none is needed, the ledger's commands mounted."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from app.cli import COMMANDS, WORKER_EXTRA, main
from app.commands.explain import _show
from app.dashboard.rendering import plain_value
from models.data.grid import snap
from tests.servers.command_line import recourse

WITHOUT_TORCH = """
import sys

class Missing:
    @staticmethod
    def find_spec(name, *rest):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Missing)
from app.cli import main
main(sys.argv[1:])
"""
HELP_WITHOUT_TORCH = """
import sys
sys.modules.update(dict.fromkeys(('torch', 'sklearn', 'scipy', 'xgboost', 'catboost')))
import json
from contextlib import redirect_stdout
from io import StringIO
from app.cli import main

pages = {}
for command in sys.argv[1:]:
    with redirect_stdout(StringIO()) as page:
        try:
            main([command, '--help'])
        except BaseException as end:
            pages[command] = page.getvalue() if getattr(end, 'code', 1) == 0 else repr(end)
json.dump(pages, sys.stdout)
"""


def python(code: str, arguments: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_help_comes_at_once() -> None:
    code = "import sys; from app.cli import main\ntry: main(['--help'])\nexcept SystemExit: print(*sys.modules)"
    done = python(code)
    *page, modules = done.stdout.splitlines()
    assert not {"torch", "pandas", "numpy", "sklearn", "sqlalchemy", "fastapi", "pydantic"} & set(modules.split())
    assert len(modules.split()) < 500, "Typer and Rich alone are some 200"
    for command in COMMANDS:
        assert any(line.strip("│ ").startswith(command) for line in page)


@pytest.fixture(scope="module")
def help_pages() -> dict[str, str]:
    """What `recourse COMMAND --help` prints for each command, without the worker packages; one process for all."""
    done = python(HELP_WITHOUT_TORCH, list(COMMANDS))
    assert done.returncode == 0, done.stderr
    pages: dict[str, str] = json.loads(done.stdout)
    return pages


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_needs_no_torch(command: str, help_pages: dict[str, str]) -> None:
    assert f"recourse {command}" in help_pages[command]


def test_what_the_worker_extra_adds_is_known_by_name() -> None:
    """A package that is missing here would be blamed on us, and not on the install."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    imported = {"scikit-learn": "sklearn", "pytorch-tabnet": "pytorch_tabnet"}
    assert {imported.get(name, name) for name in project["optional-dependencies"]["worker"]} == WORKER_EXTRA


def test_without_torch_a_sentence_says_what_to_install(tmp_path: Path) -> None:
    done = python(WITHOUT_TORCH, ["train", "loans", "--out", str(tmp_path / "model")])
    assert done.returncode == 2
    assert done.stderr == "This command needs torch, which is not installed; install 'recourse-service[worker]'.\n"
    assert not (tmp_path / "model").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_told() -> None:
    code = "from app.cli import main\nmain(['data', 'moons'])"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("The output could not be written whole: No space left on device;")


def test_a_missing_module_of_ours_is_not_blamed_on_the_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "app.commands.data", raising=False)
    monkeypatch.setitem(sys.modules, "app.datasets.reader", None)
    with pytest.raises(ModuleNotFoundError, match="reader"):
        main(["data"])


def test_a_wrong_option_is_a_usage_error() -> None:
    outcome = recourse("train", "loans", "--out", "x", "--preset", "slow")
    assert outcome.code == 2
    assert "slow" in outcome.err
    assert outcome.out == ""


def test_the_ledgers_commands_are_mounted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RECOURSE_VAR_DIR", str(tmp_path))
    monkeypatch.delenv("RECOURSE_DATABASE_URL", raising=False)
    migrated = recourse("migrate")
    assert (migrated.code, migrated.out.startswith("empty -> ")) == (0, True)
    checked = recourse("budget", "check")
    assert (checked.code, checked.out) == (0, "The ledger's sums equal the rows, and its chains hold.\n")
    assert "'nobody'" in recourse("budget", "show", "nobody", "nothing").err
    assert recourse("budget", "show", "nobody", "nothing").code == 2
    assert recourse("budget", "show").code == 2
    assert "recourse budget" in recourse("budget", "--help").out


def test_data_prints_rows_that_a_file_can_hold() -> None:
    outcome = recourse("data", "loans", "--seed", "1", "--only", "refused", "--rows", "3")
    frame = pd.read_csv(StringIO(outcome.out))
    assert (outcome.code, len(frame), set(frame["decision"])) == (0, 3, {"refused"})
    assert outcome.out != recourse("data", "loans", "--only", "refused", "--rows", "3").out


def test_data_lists_its_names_and_refuses_others() -> None:
    assert {"loans", "moons", "adult"} <= set(recourse("data").out.split())
    assert "'lans'" in recourse("data", "lans").complaint
    assert "'maybe'" in recourse("data", "loans", "--only", "maybe").complaint


@pytest.mark.parametrize("step", [1e-6, 0.01, 0.25, 1 / 3, 1.0, 500.0])
@pytest.mark.parametrize("base", [0.0, 0.1, 12_345.678, 9_876_543.0])
def test_two_values_that_differ_are_shown_apart(step: float, base: float) -> None:
    """Else a change from a value to itself would be shown."""
    before, after = snap([base, base + step], step).tolist()
    assert before != after
    assert _show(before) != _show(after)
    assert plain_value(before) != plain_value(after)
    assert (_show(24_000.0), _show(0.07), plain_value(12_345.678)) == ("24000", "0.07", "12,345.678")
