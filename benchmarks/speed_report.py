"""The figures of the speed benchmark, as a list and as a page."""

from collections.abc import Sequence

from benchmarks.speed_figures import Figure, Latency, Race, Run, Throughput

SOONER, FASTER, ALONE_MS = 20.0, 100.0, 10.0
"""What is wanted: `fast` so many times sooner, a batch so many times faster, one record in so many milliseconds."""

_INTRODUCTION = """# Speed

Written by `python -m benchmarks.speed`: one run, one core, what is compared measured beside each other. Ensembles are
`quick`, split and training of seed 0. The machine was not idle ({busy}), so seconds are those of the processor, of one
thread, where nothing else is said; on an idle core the clock would say the same.
"""

_TRAINING = """
## Training: `fast` to the validity of `paper`

`paper` is the published schedule (adaptive dopri5 with the adjoint, batch 64, 800 epochs), **cut after its seconds**:
70% of them go to joint training, the rest to distillation. It is looked at on the way (without distillation) and at the
end; the looks are not timed. `fast` runs at a share of its steps, its dial set on the validation split to the cost of
the best checkpoint of `paper`, until its validity is at least that at no more than 1.1 times that cost. Validity is the
share of the votes of the models on test records that all of them classify correctly; search without a query.
"""

_SEARCH = """
## Search: one batch against one at a time

The batch: 256 records x 30 candidates, four fixed midpoint steps. Alone: the same weights and the same selection, one
record at a time, 30 candidates with adaptive dopri5 at tolerance 1e-4, the paper's setting at test time. *Whole* is
explain() with its checks, polishing and the words of the answer, on both sides. The best of a few interleaved turns.
"""

_ALONE = """
## One record alone

explain() of one record, 30 candidates, four rounds of polishing at most, no query. Milliseconds by the clock count what
other processes took from this one; processor milliseconds do not.
"""

_PROFILE = """
## Where the time goes

The share of explain() of one record in each of its parts, under cProfile (what it was before: benchmarks/NOTES.md):
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
        figures += [
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
    header = ("data set", "batch", "alone, dopri5", "ratio", "batch, whole", "alone, whole", "ratio", "100 x?")
    lines = [
        (
            one.dataset,
            f"{one.batch:.0f}/s",
            f"{one.alone:.1f}/s",
            f"**{one.ratio:.0f}**",
            f"{one.batch_whole:.0f}/s",
            f"{one.alone_whole:.1f}/s",
            f"{one.ratio_whole:.0f}",
            _verdict(one.ratio >= FASTER),
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
    last = one.paper[-1]
    cut = (
        f"`paper` was cut after {last.steps} of {last.schedule} steps ({one.steps_per_second:.2f} steps a second: all "
        f"of them would take {one.whole_hours:.1f} hours)"
    )
    best, winner = one.best, one.winner
    seen = f"its best checkpoint, validity {best.validity:.3f} at cost {best.cost:.3f}, took {best.seconds:.0f} s"
    if winner is None or one.ratio is None:
        verdict = "no run of `fast` reached that at 1.1 times its cost"
    else:
        verdict = (
            f"`fast` reached it in {winner.seconds:.1f} s: {one.ratio:.1f} times sooner at the cap "
            f"({_verdict(one.ratio >= SOONER)}: {SOONER:.0f} wanted), {one.whole_hours * 3600 / winner.seconds:.0f} "
            "times sooner than the whole schedule would end, whose validity was not seen"
        )
    return f"{cut}; {seen}; {verdict}." + (f" {busy}" if busy else "")


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
