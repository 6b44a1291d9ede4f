"""The verdicts of the report, computed from the rows of Table 2: which rivals DensityFlow is ahead of, and which not.

Each rival is compared at the cost of its own answers, on the records that it answered and the seeds that both have. Our
points are the cost weights, the answers at the paper's cost, the verified ones at each agreement, and the record left
as it is; between two of them that share a training lies their mixture: some records answered the one way, the others
the other way. Ahead is at least the rival's validity for no more cost; against a black-box rival, with fewer queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from benchmarks.experiments.experiment import Row
from benchmarks.experiments.methods import BLACK_BOX, DIALS, RIVALS, VERIFIED
from benchmarks.experiments.tables import mean_curve, mean_of

WANTED = 7
"""On so many of the eight data sets DensityFlow is to be ahead of every rival."""


@dataclass(frozen=True, slots=True)
class Point:
    """What one of our settings gives, with its queries for as many records as the rival answered."""

    cost: float
    validity: float
    queries: float
    how: str


@dataclass(frozen=True, slots=True)
class Meeting:
    """A rival on a data set: its cost, validity and queries, and what we reach for no more cost."""

    dataset: str
    rival: str
    cost: float
    validity: float
    queries: float
    records: float
    seeds: int
    ours: Point

    @property
    def ahead(self) -> bool:
        return self.ours.validity >= self.validity

    @property
    def fewer_queries(self) -> bool:
        """A white-box rival asks nothing and is not compared"""
        return self.rival not in BLACK_BOX or self.ours.queries < self.queries


def meetings(rows: Sequence[Row]) -> list[Meeting]:
    """Every rival on every data set that has rows of both"""
    datasets = dict.fromkeys(row.dataset for row in rows)
    found = [_meet(rows, dataset, rival) for dataset in datasets for rival in RIVALS]
    return [meeting for meeting in found if meeting is not None]


def _meet(rows: Sequence[Row], dataset: str, rival: str) -> Meeting | None:
    seeds = _seeds(rows, dataset, rival) & _seeds(rows, dataset, "densityflow")
    both = [row for row in rows if row.dataset == dataset and row.seed in seeds]
    cost, validity, records = (mean_of(both, dataset, rival, name) for name in ("cost", "validity", "records"))
    if cost is None or validity is None or records is None:
        return None
    queries = mean_of(both, dataset, rival, "queries") or 0.0
    every = [each for points in our_points(both, dataset, records) for each in (*points, *_mixtures(points, cost))]
    reached = [point for point in every if point.cost <= cost]
    ahead = [point for point in reached if point.validity >= validity]
    best = min(ahead, key=lambda point: (point.queries, -point.validity, point.cost), default=None)
    best = best or max(reached, key=lambda point: (point.validity, -point.queries))
    return Meeting(dataset, rival, cost, validity, queries, records, len(seeds), best)


def _seeds(rows: Sequence[Row], dataset: str, variant: str) -> set[int]:
    return {row.seed for row in rows if (row.dataset, row.variant) == (dataset, variant)}


def our_points(rows: Sequence[Row], dataset: str, records: float) -> list[list[Point]]:
    """All of our settings, measured on the first `records` records where a rival answered no more than those

    A list for each trained model: a mixture of two models would have to pay for the training of both.
    """
    few = "few " if records < (mean_of(rows, dataset, "densityflow", "records") or 0.0) else ""
    whole, lean = (_dial_points(rows, dataset, method, few) for method in DIALS)
    training = mean_of(rows, dataset, "densityflow", "queries") or 0.0
    verified = [f"verified {few}cost", f"verified {few}validity", "verified queries"]
    for method, limit in VERIFIED.items():
        curves = (mean_curve(rows, dataset, method, name) for name in verified)
        for cost, validity, each in zip(*curves, strict=True):
            whole.append(Point(cost, validity, training + each * records, f"verified by {limit}"))
    return [whole, lean]


def _dial_points(rows: Sequence[Row], dataset: str, method: str, few: str) -> list[Point]:
    """No answer at all, the dial set to the paper's cost, and its other settings; nothing where it did not run"""
    cost, validity = (mean_of(rows, dataset, method, f"{few}{name}") for name in ("cost", "validity"))
    if cost is None or validity is None:
        return []
    queries, how = mean_of(rows, dataset, method, "queries") or 0.0, "dial" if method == "densityflow" else "lean dial"
    curves = (mean_curve(rows, dataset, method, f"dial {few}{name}") for name in ("cost", "validity"))
    points = [Point(0.0, 0.0, queries, "left as they are"), Point(cost, validity, queries, how)]
    return points + [Point(away, valid, queries, how) for away, valid in zip(*curves, strict=True)]


def _mixtures(points: Sequence[Point], cost: float) -> list[Point]:
    """Every mixture of a cheaper and a dearer point that costs `cost`"""
    found = []
    for low, high in permutations(points, 2):
        if low.cost <= cost < high.cost:
            share = (cost - low.cost) / (high.cost - low.cost)
            validity = low.validity + share * (high.validity - low.validity)
            queries = low.queries + share * (high.queries - low.queries)
            how = low.how if low.how == high.how else f"{low.how} and {high.how}"
            found.append(Point(cost, validity, queries, how))
    return found


def opening(rows: Sequence[Row]) -> list[str]:
    """The first lines of the report"""
    found = meetings(rows)
    datasets = list(dict.fromkeys(meeting.dataset for meeting in found))
    if not found:
        return ["No rival has been run beside DensityFlow in Table 2: nothing can be said of them yet."]
    ahead = [name for name in datasets if all(meeting.ahead for meeting in found if meeting.dataset == name)]
    reached = "reached" if len(ahead) >= WANTED else "NOT reached"
    lines = [
        f"DensityFlow is ahead of every rival that ran, at equal or lower cost, on {len(ahead)} of {len(datasets)} "
        f"data sets{': ' + ', '.join(ahead) if ahead else ''} (wanted: {WANTED} of 8; {reached})."
    ]
    lines += _by_seed(rows)
    lines += [f"Not ahead: {_shortfall(meeting)}" for meeting in found if not meeting.ahead]
    costly = [meeting for meeting in found if not meeting.fewer_queries]
    lines += [_more_queries(meeting) for meeting in costly]
    if not costly:
        lines.append("It asks the black boxes less than every black-box rival on every data set that ran.")
    return lines


def _by_seed(rows: Sequence[Row]) -> list[str]:
    """The same of each seed alone, where there are several: a mean may hide one"""
    seeds = sorted({row.seed for row in rows})
    lines = []
    for seed in seeds if len(seeds) > 1 else []:
        found = meetings([row for row in rows if row.seed == seed])
        every, behind = {each.dataset for each in found}, [each for each in found if not each.ahead]
        count = len(every - {each.dataset for each in behind})
        named = "; behind: " + ", ".join(f"{each.rival} on {each.dataset}" for each in behind) if behind else ""
        lines.append(f"Seed {seed} alone: ahead on {count} of {len(every)} data sets that ran{named}.")
    return lines


def _shortfall(meeting: Meeting) -> str:
    theirs = f"{meeting.dataset}, {meeting.rival}: {meeting.validity:.3f} at cost {meeting.cost:.3f}"
    asked = f" with {meeting.queries:.0f} queries" if meeting.rival in BLACK_BOX else ""
    return f"{theirs}{asked}; ours is {meeting.ours.validity:.3f} there with {meeting.ours.queries:.0f}."


def _more_queries(meeting: Meeting) -> str:
    theirs = f"{meeting.dataset}, {meeting.rival} asks {meeting.queries:.0f} for {meeting.records:.0f} records"
    return f"Not fewer queries: {theirs}; ours, {meeting.ours.how}: {meeting.ours.queries:.0f}."


def meeting_table(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Every meeting as a line of a table, the head first"""
    head = ("data set", "rival", "seeds", "records", "its validity @ cost", "ours", "how", "its queries", "ours", "")
    lines: list[tuple[str, ...]] = [head]
    for each in meetings(rows):
        asked = f"{each.queries:.0f}" if each.rival in BLACK_BOX else "white box"
        mark = "▲ ahead" if each.ahead and each.fewer_queries else "▼ more queries" if each.ahead else "▼ behind"
        lines.append(
            (
                each.dataset,
                each.rival,
                str(each.seeds),
                f"{each.records:.0f}",
                f"{each.validity:.3f} @ {each.cost:.3f}",
                f"{each.ours.validity:.3f} @ {each.ours.cost:.3f}",
                each.ours.how,
                asked,
                f"{each.ours.queries:.0f}",
                mark,
            )
        )
    return lines
