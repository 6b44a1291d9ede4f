"""The verdicts of the report, computed from the rows of Table 2: which rivals DensityFlow is ahead of, and which not.

Each rival is met at its own cost: the best validity among our points (the dial's settings, the answers at the paper's
cost, the verified ones) that cost no more than the rival's answers. Ahead is at least its validity there. Between two
settings of the dial lies what a mixture of both gives: some records answered at one, the others at the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.experiments.experiment import Row
from benchmarks.experiments.methods import BLACK_BOX, OURS, RIVALS
from benchmarks.experiments.summary import mean_curve, mean_of

WANTED = 7
"""On so many of the eight data sets DensityFlow is to be ahead of every rival."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """A rival on a data set: its cost, validity and queries, and what we reach for no more."""

    dataset: str
    rival: str
    cost: float
    validity: float
    queries: float
    our_validity: float | None
    our_queries: float | None

    @property
    def ahead(self) -> bool:
        return self.our_validity is not None and self.our_validity >= self.validity

    @property
    def fewer_queries(self) -> bool:
        """A white-box rival asks nothing and is not compared"""
        return self.rival not in BLACK_BOX or (self.our_queries is not None and self.our_queries < self.queries)


def meetings(rows: Sequence[Row]) -> list[Meeting]:
    """Every rival on every data set that has rows of both"""
    datasets = dict.fromkeys(row.dataset for row in rows)
    found = [_meet(rows, dataset, rival) for dataset in datasets for rival in RIVALS]
    return [meeting for meeting in found if meeting is not None]


def _meet(rows: Sequence[Row], dataset: str, rival: str) -> Meeting | None:
    cost, validity = (mean_of(rows, dataset, rival, name) for name in ("cost", "validity"))
    if cost is None or validity is None or mean_of(rows, dataset, "densityflow", "cost") is None:
        return None
    # Our queries are those of as many records as the rival answered: training, and the share of verified ones.
    points = [point for point in _our_points(rows, dataset, rival, cost) if point[0] <= cost]
    best = max(points, key=lambda point: point[1], default=None)
    queries = mean_of(rows, dataset, rival, "queries") or 0.0
    return Meeting(
        dataset, rival, cost, validity, queries, None if best is None else best[1], None if best is None else best[2]
    )


def _mixed(dial: list[tuple[float, float]], met: float) -> list[tuple[float, float]]:
    """The dial's points, the cheapest first, and the mixture of two neighbours that costs `met`"""
    costs, validities = [cost for cost, _ in dial], [validity for _, validity in dial]
    if dial and costs[0] <= met <= costs[-1]:
        return [*dial, (met, float(np.interp(met, costs, validities)))]
    return dial


def _our_points(rows: Sequence[Row], dataset: str, rival: str, met: float) -> list[tuple[float, float, float]]:
    """Cost, validity and queries (for as many records as the rival answered) of each of our points"""
    training = mean_of(rows, dataset, "densityflow", "queries") or 0.0
    dial = zip(
        mean_curve(rows, dataset, "densityflow", "dial cost"),
        mean_curve(rows, dataset, "densityflow", "dial validity"),
        strict=True,
    )
    points = [(cost, validity, training) for cost, validity in _mixed(sorted(dial), met)]
    for method in OURS:
        cost, validity, queries, records = (
            mean_of(rows, dataset, method, name) for name in ("cost", "validity", "queries", "records")
        )
        if cost is None or validity is None or queries is None or records is None:
            continue
        share = (mean_of(rows, dataset, rival, "records") or records) / records
        points.append((cost, validity, training + share * (queries - training)))
    return points


def opening(rows: Sequence[Row]) -> list[str]:
    """The first lines of the report"""
    found = meetings(rows)
    datasets = list(dict.fromkeys(meeting.dataset for meeting in found))
    if not found:
        return ["No rival has been run beside DensityFlow in Table 2: nothing can be said of them yet."]
    ahead = [name for name in datasets if all(meeting.ahead for meeting in found if meeting.dataset == name)]
    lines = [
        f"DensityFlow is ahead of every rival that ran, at equal or lower cost, on {len(ahead)} of {len(datasets)} "
        f"data sets{': ' + ', '.join(ahead) if ahead else ''} (wanted: {WANTED} of 8)."
    ]
    lines += [f"Not ahead: {_shortfall(meeting)}" for meeting in found if not meeting.ahead]
    costly = [meeting for meeting in found if not meeting.fewer_queries]
    lines += [_more_queries(meeting) for meeting in costly]
    if not costly:
        lines.append("It asks the black boxes less than every black-box rival on every data set that ran.")
    return lines


def _shortfall(meeting: Meeting) -> str:
    theirs = f"{meeting.dataset}, {meeting.rival}: {meeting.validity:.3f} at cost {meeting.cost:.3f}"
    if meeting.our_validity is None:
        return f"{theirs}; we have no point that costs as little."
    return f"{theirs}; ours is {meeting.our_validity:.3f} there."


def _more_queries(meeting: Meeting) -> str:
    ours = "no point at its cost" if meeting.our_queries is None else f"{meeting.our_queries:.0f} queries"
    return f"Not fewer queries: {meeting.dataset}, {meeting.rival} asks {meeting.queries:.0f}; ours: {ours}."
