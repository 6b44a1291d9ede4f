"""What the speed benchmark measures, its figures as a list (speed.json) and as a page (SPEED.md)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of speed.json; None is a ratio to something that was not reached."""

    name: str
    value: float | None
    unit: str
    detail: str


@dataclass(frozen=True, slots=True)
class Run:
    """A generator at some point of its training: what it had taken and how good its answers were.

    effort is the share of the preset's steps; steps are the generator's, of `schedule` in the whole preset.
    """

    preset: str
    effort: float
    steps: int
    schedule: int
    rounds: int
    seconds: float
    validity: float
    cost: float


@dataclass(frozen=True, slots=True)
class Race:
    """`paper` at its checkpoints and `fast` at its efforts, on one data set."""

    dataset: str
    paper: tuple[Run, ...]
    fast: tuple[Run, ...]
    generator_seconds: float

    @property
    def end(self) -> Run:
        """What `paper` leaves behind: its last checkpoint, with all of its distillation."""
        return self.paper[-1]

    @property
    def wanted(self) -> Run:
        """What `fast` has to reach."""
        return best_of(self.paper)

    @property
    def winner(self) -> Run | None:
        """The first run of `fast` that is as valid as that, at no higher cost."""
        return next((run for run in self.fast if reaches(run, self.wanted)), None)

    @property
    def ratio(self) -> float | None:
        return None if self.winner is None else self.wanted.seconds / self.winner.seconds

    @property
    def whole(self) -> bool:
        """Whether `paper` came to the end of its schedule."""
        return self.end.steps == self.end.schedule

    @property
    def steps_per_second(self) -> float:
        return self.paper[-1].steps / self.generator_seconds

    @property
    def whole_hours(self) -> float:
        """How long all steps of `paper` would take at that pace."""
        return self.paper[-1].schedule / self.steps_per_second / 3600


def best_of(paper: Sequence[Run]) -> Run:
    """The most valid that `paper` ever was, on its way or at its end, at no higher cost than at its end"""
    return max((run for run in paper if run.cost <= paper[-1].cost), key=lambda run: run.validity)


def reaches(run: Run, wanted: Run) -> bool:
    return run.validity >= wanted.validity and run.cost <= wanted.cost


@dataclass(frozen=True, slots=True)
class Throughput:
    """Records a second on one data set: in one batch with fixed steps, and one at a time with adaptive dopri5.

    published: one at a time with dopri5 too, by the model that `paper` trained: what the paper's own search takes.
    trials: that, with each of a record's trials by itself, as Algorithm 2 is printed.
    """

    dataset: str
    batch: float
    batch_whole: float
    alone: float
    alone_whole: float
    published: float
    trials: float

    @property
    def ratio_trials(self) -> float:
        return self.batch / self.trials

    @property
    def ratio_published(self) -> float:
        return self.batch / self.published

    @property
    def ratio(self) -> float:
        return self.batch / self.alone

    @property
    def ratio_whole(self) -> float:
        return self.batch_whole / self.alone_whole


@dataclass(frozen=True, slots=True)
class Latency:
    """explain() of one record: milliseconds by the clock (median, 95%) and of the processor; the share of each part."""

    dataset: str
    median: float
    p95: float
    processor: float
    parts: tuple[tuple[str, float], ...]


SOONER, FASTER, ALONE_MS = 20.0, 100.0, 10.0
"""What is wanted: `fast` so many times sooner, a batch so many times faster, one record in so many milliseconds."""

SCRIPT_SECONDS = 0.15
"""What the published script's search takes for one record (METHOD.md, section 8)."""

_INTRODUCTION = """# Speed

Written by `python -m benchmarks.speed`: one machine, one core, what is compared measured beside each other; only the
long training of `paper` is kept from one run to the next. Ensembles are `quick`, split and training of seed 0. Seconds
are those of the processor, of one thread, where nothing else is said: on an idle core the clock would say the same
({busy}).
"""

_TRAINING = """
## Training: `fast` to the validity of `paper`

`paper` is the published training (adaptive dopri5 with the adjoint, batch 64) with all of its 800 epochs or, where they
take hours, with a share of them: warm-up and decay are then as long as that share, so that it ends as it should, and
distillation is whole. A share favours `paper`: all epochs take longer. It is looked at on the way (without
distillation) and at the end; the looks are not timed. What `fast` has to reach is the most valid that `paper` ever
was, on its way or at its end, at no higher cost than at its end; and its time is taken there, not at its end. `fast`
runs at a share of its steps, its dial set on the validation split to a little less than that cost, until its validity
is at least as high at no higher cost. Validity is the share of the votes of the models on test records that all of them
classify correctly; search without a query.
"""

_SEARCH = """
## Search: one batch against one at a time

The batch: 256 records x 30 candidates by the model of the whole of `fast`, one fixed step of third order, all ends
decoded and scored. Beside it, one record at a time with adaptive dopri5 at tolerance 1e-4, the paper's
setting at test time, in two readings. *Trial by trial*: each of the 30 trials is solved, decoded and evaluated by
itself, as Algorithm 2 is printed. The paper's text, unlike its listing, speaks of a batch of trials: that is *alone*,
the stricter reading: the 30 trials of a record go through the solver together. Both by the model that `paper` trained,
all of its trials scored, through the same code. *Alone, `fast`*: dopri5 on our own light field, so that
only solver and batch differ. *Whole* is explain() with its checks, polishing and the words of the answer, on both
sides. The best of several interleaved turns. *Script*: the batch beside the published script, whose search takes about
150 ms a record (measured by others on one core, METHOD.md; not in this run).
"""

_ALONE = """
## One record alone

explain() of one record, 30 candidates, four rounds of polishing at most, no query. Milliseconds by the clock count what
other processes took from this one; processor milliseconds do not.
"""

_PROFILE = """
## Where the time goes

The share of explain() of one record in each of its parts, under cProfile (what it was before: docs/decisions/speed.md):
"""


def figures_of(
    races: Sequence[Race], throughputs: Sequence[Throughput], latencies: Sequence[Latency], busy: str
) -> list[Figure]:
    """Everything that was measured, one number a line"""
    figures = []
    for one in races:
        ratio = None if one.ratio is None else round(one.ratio, 1)
        figures.append(Figure(f"training_{one.dataset}_ratio", ratio, "x", _told(one, busy)))
        for run in (*one.paper, *one.fast):
            detail = f"validity {run.validity:.3f} at cost {run.cost:.3f}, {_progress(run)}"
            figures.append(Figure(f"training_{one.dataset}_{run.preset}", round(run.seconds, 2), "s", detail))
    for rate in throughputs:
        name, against = f"search_{rate.dataset}", "one batch of fixed steps / one at a time with dopri5"
        theirs = "generation and selection, dopri5, the model of `paper`"
        by_trials = "each of a record's 30 trials by itself, dopri5, the model of `paper`"
        figures += [
            Figure(f"{name}_trials_ratio", round(rate.ratio_trials, 1), "x", f"{against}; {by_trials}; {busy}"),
            Figure(f"{name}_trials", round(rate.trials, 1), "records/s", by_trials),
            Figure(f"{name}_published_ratio", round(rate.ratio_published, 1), "x", f"{against}; {theirs}; {busy}"),
            Figure(f"{name}_published", round(rate.published, 1), "records/s", theirs),
            Figure(f"{name}_ratio", round(rate.ratio, 1), "x", f"{against}; generation and selection; {busy}"),
            Figure(f"{name}_whole_ratio", round(rate.ratio_whole, 1), "x", f"{against}; the whole explain(); {busy}"),
            Figure(f"{name}_batch", round(rate.batch, 1), "records/s", "generation and selection"),
            Figure(f"{name}_alone", round(rate.alone, 1), "records/s", "generation and selection, dopri5"),
            Figure(f"{name}_batch_whole", round(rate.batch_whole, 1), "records/s", "explain()"),
            Figure(f"{name}_alone_whole", round(rate.alone_whole, 1), "records/s", "explain(), dopri5"),
        ]
    for one_record in latencies:
        name = f"alone_{one_record.dataset}"
        parts = ", ".join(f"{part} {share:.0%}" for part, share in one_record.parts)
        figures += [
            Figure(f"{name}_median", round(one_record.median, 2), "ms", f"by the clock; {busy}"),
            Figure(f"{name}_p95", round(one_record.p95, 2), "ms", f"by the clock; {busy}"),
            Figure(f"{name}_processor", round(one_record.processor, 2), "ms", f"median; {parts}"),
        ]
    return figures


def write_report(
    races: Sequence[Race], throughputs: Sequence[Throughput], latencies: Sequence[Latency], busy: str
) -> str:
    """The whole page"""
    parts = [_INTRODUCTION.format(busy=busy), _TRAINING, *(_race(one) for one in races), _SEARCH]
    header = (
        *("data set", "batch", "trial by trial", "ratio", "100 x?", "alone, `paper`", "ratio", "100 x?"),
        *("alone, `fast`", "ratio"),
        *("batch, whole", "alone, whole", "ratio", "script"),
    )
    lines = [
        (
            one.dataset,
            f"{one.batch:.0f}/s",
            f"{one.trials:.2f}/s",
            f"**{one.ratio_trials:.0f}**",
            _verdict(one.ratio_trials >= FASTER),
            f"{one.published:.1f}/s",
            f"**{one.ratio_published:.0f}**",
            _verdict(one.ratio_published >= FASTER),
            f"{one.alone:.1f}/s",
            f"{one.ratio:.0f}",
            f"{one.batch_whole:.0f}/s",
            f"{one.alone_whole:.1f}/s",
            f"{one.ratio_whole:.0f}",
            f"{SCRIPT_SECONDS * one.batch:.0f}",
        )
        for one in throughputs
    ]
    parts += [_table(header, lines), _ALONE, _alone_table(latencies), _PROFILE, _profile_table(latencies)]
    return "".join(parts)


def _race(one: Race) -> str:
    rows = [
        (run.preset, _progress(run), f"{run.seconds:.1f}", f"{run.validity:.3f}", f"{run.cost:.3f}")
        for run in (*one.paper, *one.fast)
    ]
    table = _table(("preset", "progress", "seconds", "validity", "cost"), rows)
    return f"\n### {one.dataset}\n{table}\n{_told(one)}\n"


def _told(one: Race, busy: str = "") -> str:
    """The race in words."""
    end, wanted, winner = one.end, one.wanted, one.winner
    if one.whole:
        ran = f"`paper` ran its whole schedule of {end.schedule} steps"
    else:
        pace = f"{one.steps_per_second:.2f} steps a second: all of them would take {one.whole_hours:.1f} hours"
        ran = f"`paper` ran {end.steps} of {end.schedule} steps ({pace})"
    seen = f"it ended with validity {end.validity:.3f} at cost {end.cost:.3f} after {end.seconds:.0f} s"
    if wanted != end:
        seen += f", and was best with {wanted.validity:.3f} at {wanted.cost:.3f} after {wanted.seconds:.0f} s"
    if winner is None or one.ratio is None:
        verdict = "no run of `fast` reached that at its cost"
    else:
        verdict = (
            f"`fast` reached that in {winner.seconds:.1f} s: {one.ratio:.1f} times sooner "
            f"({_verdict(one.ratio >= SOONER)}: {SOONER:.0f} wanted)"
        )
    return f"{ran}; {seen}; {verdict}." + (f" {busy}" if busy else "")


def _alone_table(latencies: Sequence[Latency]) -> str:
    header = ("data set", "median ms", "95% ms", "processor ms, median", f"at most {ALONE_MS:.0f} ms?")
    lines = [
        (
            one.dataset,
            f"{one.median:.1f}",
            f"{one.p95:.1f}",
            f"{one.processor:.1f}",
            f"{_verdict(one.median <= ALONE_MS)} by the clock, {_verdict(one.processor <= ALONE_MS)} of the processor",
        )
        for one in latencies
    ]
    return _table(header, lines)


def _profile_table(latencies: Sequence[Latency]) -> str:
    names = [name for name, _ in latencies[0].parts]
    lines = [(one.dataset, *(f"{share:.0%}" for _, share in one.parts)) for one in latencies]
    return _table(("data set", *names), lines)


def _progress(run: Run) -> str:
    return f"{run.steps} of {run.schedule} steps ({run.effort:.1%}), {run.rounds} rounds of distillation"


def _verdict(reached: bool) -> str:
    return "reached" if reached else "not reached"


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *lines)) + "\n"
