"""The report's first lines say where DensityFlow is not ahead; its page has every table and picture."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.experiments.experiment import Measured, Row, Rows, add_time, results_folder
from benchmarks.experiments.verdict import meeting_table, meetings, opening
from benchmarks.report import main
from tests.benchmarks.experiments.rows import dial, row

OURS = dial("moons", [1.0, 0.5, 0.2], [0.99, 0.8, 0.4])


def rival(name: str, cost: float, validity: float, queries: float = 5000.0, records: float = 100.0) -> Row:
    return row("moons", name, cost=cost, validity=validity, queries=queries, records=records)


def test_a_rival_is_met_at_its_own_cost() -> None:
    (dear,) = meetings([OURS, rival("betarce", 1.2, 0.98)])
    assert dear.ahead and dear.ours.validity == 0.99 and dear.fewer_queries
    # Two fifths of the way from 0.5 to 1.0, and from 0.8 to 0.99.
    (cheap,) = meetings([OURS, rival("betarce", 0.7, 0.88)])
    assert not cheap.ahead and cheap.ours.validity == pytest.approx(0.876)
    # Cheaper than the dial goes: half of the records are left as they are.
    (cheapest,) = meetings([OURS, rival("betarce", 0.1, 0.3)])
    assert not cheapest.ahead and cheapest.ours.validity == pytest.approx(0.2)


def test_a_rival_is_met_on_the_seeds_and_the_records_that_both_have() -> None:
    other = replace(dial("moons", [1.0], [0.2]), seed=1)
    (meeting,) = meetings([OURS, other, rival("betarce", 1.2, 0.98)])
    assert meeting.seeds == 1 and meeting.ours.validity == 0.99
    few = {"dial few cost": [1.0], "dial few validity": [0.7]}
    both = replace(OURS, curves={**OURS.curves, **few}, values={**OURS.values, "few cost": 1.0, "few validity": 0.7})
    (slow,) = meetings([both, rival("betarce", 1.2, 0.98, records=30.0)])
    assert slow.ours.validity == 0.7 and not slow.ahead


def test_verified_answers_count_and_their_queries_are_those_of_as_many_records() -> None:
    names = ("verified cost", "verified validity", "verified few cost", "verified few validity", "verified queries")
    curves = dict(zip(names, ([0.9], [1.0], [0.9], [1.0], [10.0]), strict=True))
    verified = Row("moons", 0, "densityflow-verified", {}, curves, "")
    (meeting,) = meetings([OURS, verified, rival("dice", 0.92, 0.999, queries=700.0, records=10.0)])
    assert (meeting.ours.validity, meeting.ours.queries, meeting.ours.how) == (1.0, 580.0, "verified by 10")
    assert meeting.ahead and meeting.fewer_queries
    # Half verified, half by the dial at 1.0, is enough for 0.995, and of all that are it asks least.
    (meeting,) = meetings([OURS, verified, rival("dice", 0.95, 0.9949, queries=700.0)])
    assert meeting.ours.queries == pytest.approx(980.0) and meeting.ours.how == "verified by 10 and dial"
    assert meeting.ahead and not meeting.fewer_queries
    # Where a cheaper setting is ahead too, the one with fewer queries is taken.
    (meeting,) = meetings([OURS, verified, rival("dice", 1.1, 0.98, queries=700.0)])
    assert (meeting.ours.queries, meeting.ours.how) == (480.0, "dial")
    assert [line[-1] for line in meeting_table([OURS, verified, rival("dice", 1.1, 0.98)])] == ["", "▲ ahead"]


def test_two_trainings_are_not_mixed() -> None:
    cheap = {"cost": 0.5, "validity": 0.8, "queries": 240.0, "records": 100.0}
    lean = Row("moons", 0, "densityflow-lean", cheap, {"dial cost": [0.5], "dial validity": [0.8]}, "")
    both = [dial("moons", [1.0], [0.99]), lean]
    (met,) = meetings([*both, rival("nice", 0.6, 0.79)])
    assert (met.ours.validity, met.ours.queries, met.ours.how) == (0.8, 240.0, "lean dial")
    # Between 0.5 and 1.0 there is nothing: who wants both pays for both trainings.
    (met,) = meetings([*both, rival("nice", 0.75, 0.85)])
    assert not met.ahead and met.ours.validity == 0.8


def test_a_rival_that_asks_nothing_is_not_compared_by_queries() -> None:
    (meeting,) = meetings([OURS, rival("ceflow", 1.2, 0.5, queries=0.0)])
    assert meeting.fewer_queries


def test_the_first_lines_name_what_is_not_ahead() -> None:
    rivals = [rival("betarce", 0.7, 0.88), rival("ceflow", 1.1, 0.5, 0.0), rival("argument", 1.1, 0.5, 100.0)]
    lines = opening([OURS, *rivals])
    assert lines[0].startswith("DensityFlow is ahead of every rival that ran, at equal or lower cost, on 0 of 1 data ")
    assert lines[1] == (
        "Not ahead: moons, betarce: 0.880 at cost 0.700 with 5000 queries; ours is 0.876 there with 480."
    )
    assert lines[2] == "Not fewer queries: moons, argument asks 100 for 100 records; ours, dial: 480."
    assert len(lines) == 3
    assert opening([]) == ["No rival has been run beside DensityFlow in Table 2: nothing can be said of them yet."]
    good = opening([OURS, rival("betarce", 1.2, 0.9)])
    assert good[0].endswith("on 1 of 1 data sets: moons (wanted: 7 of 8; NOT reached).")
    assert "less than every" in good[1]


def test_each_seed_alone_is_named_where_there_are_several() -> None:
    rows = [OURS, rival("betarce", 1.2, 0.9)]
    short = dial("moons", [1.0, 0.5, 0.2], [0.8, 0.6, 0.3])
    worse = [replace(short, seed=1), replace(rival("betarce", 1.2, 0.9), seed=1)]
    lines = opening([*rows, *worse])
    assert lines[1] == "Seed 0 alone: ahead on 1 of 1 data sets that ran."
    assert lines[2] == "Seed 1 alone: ahead on 0 of 1 data sets that ran; behind: betarce on moons."


def test_the_pages_have_tables_pictures_and_coloured_marks(tmp_path: Path) -> None:
    folder = results_folder(tmp_path, quick=True)
    Rows(folder, "table2").put("moons", 0, "densityflow", Measured(OURS.values, OURS.curves))
    (folder / "table2.png").write_bytes(b"\x89PNG picture")
    add_time(folder, "table2", 90.0, 2)
    add_time(folder, "sex", 1200.0, 2)
    assert main(["--results", str(tmp_path)]) == 0
    page = (tmp_path / "REPORT.md").read_text()
    assert page.startswith("# The paper's experiments\n\n- No rival has been run")
    assert "Not run yet: query_cost, plausibility" in page
    assert "![Validity and cost of every method](paper/quick/table2.png)" in page
    assert "1.000 (paper: 0.867 ± 0.101) ▼ falls short" in page
    assert "| quick | 2 | 22 min | table2 1.5 min, sex 20 min |" in page
    shown = (tmp_path / "REPORT.html").read_text()
    assert '<td class="short">1.000 (paper: 0.867' in shown and "data:image/png;base64," in shown


def test_a_full_run_goes_before_a_quick_one(tmp_path: Path) -> None:
    for quick, cost in ((True, 0.7), (False, 0.8)):
        measured = Measured({"cost": cost, "validity": 1.0})
        Rows(results_folder(tmp_path, quick), "table2").put("moons", 0, "ceflow", measured)
    main(["--results", str(tmp_path)])
    page = (tmp_path / "REPORT.md").read_text()
    assert "| 0.800 (paper: 1.194" in page and "| 0.700 (paper" not in page and "Full run, seeds 0" in page
