"""What is held against the service, and what is not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.hostile.report import Run, line, write
from benchmarks.hostile.verdict import Seen, Verdict, back_after, judge, part_of
from benchmarks.hostile.watcher import Call, Sample, Watched

BEGAN, ENDED = 10.0, 20.0
CALLS = [Call(probe, float(at), 0.01, 200) for at in range(30) for probe in ("livez", "readyz", "budgets", "explain")]
SAMPLES = [Sample(float(at), 800.0 + at, 20, 40, 0.0, 0.5 * at) for at in range(30)]


def judged(*calls: Call, seen: Seen | None = None, start: float = 790.0, stops: bool = False) -> Verdict:
    watched = Watched(sorted([*CALLS, *calls], key=lambda call: call.at), SAMPLES)
    return judge("an attack", "embedded", watched, (BEGAN, ENDED), start, seen or Seen(), stops)


def test_a_service_that_goes_on_as_before_holds() -> None:
    verdict = judged()
    assert verdict.holds and verdict.growth_mb == pytest.approx(829 - 790)
    assert verdict.calm.calls == verdict.during.calls == dict.fromkeys(("livez", "readyz", "budgets", "explain"), 10)
    assert verdict.back_seconds == pytest.approx(0.01)
    assert (verdict.threads, verdict.descriptors, verdict.cores) == ((20, 20), (40, 40), (0.5, 0.5))


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (Call("livez", 15.0, 1.2, 200), "/livez took 1.20 s"),
        (Call("budgets", 15.0, 2.5, 200), "another tenant's call took 2.50 s"),
        (Call("explain", 15.0, 0.1, 503), "others got 1 x explain 503"),
        (Call("readyz", 15.0, 0.1, 503), "others got 1 x readyz 503"),
        (Call("budgets", 26.5, 0.1, 0), "full service 7.0 s after the attack"),
    ],
)
def test_each_promise_is_held_against_it(call: Call, fault: str) -> None:
    assert judged(call).faults == [fault]


def test_growth_is_beside_the_start_of_the_service_and_not_of_the_attack() -> None:
    assert judged(start=500.0).faults == ["the processes grew by 329 MB"]


def test_what_was_slow_before_the_attack_is_told_and_no_fault_of_it() -> None:
    verdict = judged(Call("livez", 5.0, 3.0, 200))
    assert verdict.holds and (verdict.calm.live, verdict.during.live) == (3.0, 0.01)


def test_while_a_killed_service_comes_back_nobody_is_promised_an_answer() -> None:
    gone = Call("explain", 15.0, 30.0, 0)
    assert not judged(gone).holds and judged(gone, stops=True).holds
    assert not judged(Call("explain", 27.0, 0.1, 0), stops=True).holds, "afterwards it is"


def test_what_the_attacker_saw_counts_too() -> None:
    assert judged(seen=Seen({"swapped": 1}, ["1 answers were another record's"])).faults == [
        "1 answers were another record's"
    ]


def test_a_probe_that_is_never_well_again_is_never_back() -> None:
    dead = [Call("budgets", 20.0 + at, 0.1, 503) for at in range(5)]
    assert back_after(dead, ENDED) == float("inf")
    assert part_of(dead, 0.0, 22.0).failures == {"budgets 503": 2}


def test_the_results_are_written(tmp_path: Path) -> None:
    good, bad = judged(), judged(Call("livez", 15.0, 1.2, 200), seen=Seen({"readers": 25}))
    run = Run(
        "embedded", 800.0, (0.5, 1.0), (good, replace(bad, attack="another")), "The ledger's sums equal the rows."
    )
    write([run], tmp_path)
    (read,) = json.loads((tmp_path / "hostile.json").read_text())
    assert not read["holds"] and [one["attack"] for one in read["verdicts"]] == ["an attack", "another"]
    page = (tmp_path / "HOSTILE.md").read_text()
    assert "1 of 2 hold" in page and "| another | +39 MB | 0.01 → 1.20 s |" in page and "readers 25" in page
    assert "well after 0.0 s" in line(good) and line(good).endswith("holds")
