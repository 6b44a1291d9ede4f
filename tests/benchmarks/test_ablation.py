"""The ablation: switches by their paths, verdicts by the deviation over seeds, and a whole run in small."""

import json
from pathlib import Path

import pytest

from benchmarks.ablation import PARTS, WHOLE, code_lines, losses, main, switch
from benchmarks.store import Row
from models.config import fast


def row(part: str, seed: int, validity: float, ms: float = 1.0) -> Row:
    place: Row = {"dataset": "moons", "seed": seed, "part": part, "effort": 1.0, "records": 9}
    return place | {"validity": validity, "train_seconds": 1.0, "ms": ms, "ms_alone": 1.0, "verified_ms": 1.0}


def test_a_switch_turns_a_setting_or_says_that_there_is_none() -> None:
    turned = switch(distill__surrogate_steps=0, surrogate__jury=False)(fast())
    assert turned is not None and (turned.distill.surrogate_steps, turned.surrogate.jury) == (0, False)
    assert turned.generator == fast().generator
    assert switch(distill__no_such_setting=0)(fast()) is None and switch(nothing__at_all=0)(fast()) is None


def test_lines_of_code_are_those_without_docstrings_comments_and_blanks(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(
        '"""Text."""\n\n\ndef one() -> int:\n    """Of\n    more."""\n    # So.\n    return 1\n\n\nTWO = 2\n'
    )
    assert code_lines(str(file)) == 3 and code_lines(str(file), "one") == 2
    assert code_lines("models/no_such_file.py") == 0
    named = [code.partition(":") for part in PARTS.values() for code in part.code]
    assert all(code_lines(path, name) > 0 for path, _, names in named for name in names.split() or [""])


def test_a_part_is_idle_within_one_deviation_and_half_more_time() -> None:
    whole = [row(WHOLE, 0, 0.90), row(WHOLE, 1, 0.92)]
    assert losses([*whole, row("x", 0, 0.89), row("x", 1, 0.91)], "x") == []
    (said,) = losses([*whole, row("x", 0, 0.88), row("x", 1, 0.90)], "x")
    assert said == "validity is 0.020 worse"
    (said,) = losses([*whole, row("x", 0, 0.90, ms=1.6), row("x", 1, 0.92, ms=1.6)], "x")
    assert said == "ms is 1.6 times as long"


@pytest.mark.slow
def test_a_whole_run_in_small(tmp_path: Path) -> None:
    places = ["--results", str(tmp_path), "--cache", str(tmp_path / "cache"), "--members", "knn", "mlp"]
    small = ["--datasets", "moons", "--seeds", "0", "--records", "8", "--effort", "0.02", "--greedy"]
    parts = ["--parts", "residual ridge", "anchors"]
    assert main([*places, *small, *parts]) == 0
    rows = json.loads((tmp_path / "ablation.json").read_text())
    assert {each["part"] for each in rows} >= {WHOLE, "residual ridge", "anchors"}
    assert all(0 <= each["validity"] <= 1 and each["ms"] > 0 and 0 <= each["typicality"] <= 1 for each in rows)
    page = (tmp_path / "ABLATION.md").read_text()
    assert "| without | lines of code | verdict |" in page and "## moons" in page and "without a switch: jury" in page
    written = (tmp_path / "ablation.json").stat().st_mtime_ns
    assert main([*places, *small, *parts]) == 0
    assert (tmp_path / "ablation.json").stat().st_mtime_ns == written
