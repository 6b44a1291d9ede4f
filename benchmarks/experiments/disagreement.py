"""Do the models disagree where the density is low? With bootstrap intervals over the records."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmarks.experiments.bench import Bench
from benchmarks.experiments.experiment import REAL, Experiment, Measure, Measured, Row, Scope
from benchmarks.experiments.pictures import COLOURS, panels, save
from benchmarks.experiments.tables import mean_curve
from models.arrays import Records, Targets
from models.search.scoring import score_points

Floats = NDArray[np.float64]

TEST_ROWS = 600
BINS = 10
BETTER = (Measure("rho", "higher"), Measure("tail", "higher"), Measure("delta", "higher"))
BOUNDS = tuple(Measure(f"{measure.name} {side}") for measure in BETTER for side in ("low", "high"))


def variance(probabilities: Floats, target: NDArray[np.int64]) -> Floats:
    """Of the models' probabilities of the target: (m, n, K), (n,) -> (n,)"""
    chosen = np.take_along_axis(probabilities, target[None, :, None], axis=2)[:, :, 0]
    spread: Floats = chosen.var(axis=0)
    return spread


def mutual_information(probabilities: Floats) -> Floats:
    """Entropy of the mean less the mean entropy, in nats: (m, n, K) -> (n,)"""
    information: Floats = _entropy(probabilities.mean(axis=0)) - _entropy(probabilities).mean(axis=0)
    return information


def _entropy(probabilities: Floats) -> Floats:
    """(..., K) -> (...)"""
    safe = np.clip(probabilities, 1e-12, 1.0)
    entropy: Floats = -(safe * np.log(safe)).sum(axis=-1)
    return entropy


def rank_correlation(density: Floats, disagreement: Floats) -> float:
    """Spearman's rho of lower density with higher disagreement; 0 where one of them does not vary"""
    if np.ptp(density) == 0 or np.ptp(disagreement) == 0:
        return 0.0
    return float(spearmanr(-density, disagreement).statistic)


def tail_ratio(density: Floats, disagreement: Floats) -> float:
    """Mean disagreement of the fifth of lowest density over that of the fifth of highest"""
    order = np.argsort(density, kind="stable")
    fifth = max(1, len(order) // 5)
    return float(disagreement[order[:fifth]].mean() / max(disagreement[order[-fifth:]].mean(), 1e-12))


def bootstrap(
    figure: Callable[[Floats, Floats], float], one: Floats, other: Floats, random: np.random.Generator, times: int = 300
) -> tuple[float, float]:
    """The 95% interval of figure(one, other) over records drawn with replacement"""
    draws = (random.integers(len(one), size=len(one)) for _ in range(times))
    values = [figure(one[rows], other[rows]) for rows in draws]
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def run(bench: Bench, variant: str) -> Measured:
    random = np.random.default_rng(bench.seed)
    model, _ = bench.model()
    test = bench.study.test.records
    records = test[random.permutation(len(test))[:TEST_ROWS]]
    said = bench.ensemble.predict_proba(records)
    target: Targets = said.mean(axis=0).argmax(axis=1).astype(np.int64)
    density = score_points(model, bench.encoder.encode(records), target).density
    spread = variance(said, target)
    grown = _on_noise(bench, records, target, random) - spread
    values: dict[str, float] = {}
    pairs = (("rho", rank_correlation, spread), ("tail", tail_ratio, spread), ("delta", _mean_second, grown))
    for name, figure, other in pairs:
        values[name] = figure(density, other)
        values[f"{name} low"], values[f"{name} high"] = bootstrap(figure, density, other, random)
    return Measured(values, _curve(density, mutual_information(said), random))


def _mean_second(density: Floats, other: Floats) -> float:
    return float(other.mean())


def _on_noise(bench: Bench, records: Records, target: Targets, random: np.random.Generator) -> Floats:
    """The disagreement (n,) at the far end of the way from each record to noise, decoded as everything is"""
    points = bench.encoder.encode(records)
    bound = max(2.0, 1.2 * float(np.abs(points).max()))
    noise = bench.encoder.decode(random.uniform(-bound, bound, size=points.shape))
    return variance(bench.ensemble.predict_proba(noise), target)


def _curve(density: Floats, information: Floats, random: np.random.Generator) -> dict[str, list[float]]:
    """Mutual information in bins of equal size, from the lowest density up, with 95% intervals"""
    curve: dict[str, list[float]] = {"density": [], "information": [], "low": [], "high": []}
    for rows in np.array_split(np.argsort(density, kind="stable"), BINS):
        here = information[rows]
        low, high = bootstrap(_mean_second, here, here, random, 200)
        for name, value in zip(curve, (density[rows].mean(), here.mean(), low, high), strict=True):
            curve[name].append(float(value))
    return curve


def draw(rows: Sequence[Row], path: Path) -> None:
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    figure, axes = panels(len(datasets))
    for axis, dataset in zip(axes, datasets, strict=True):
        at, mean, low, high = (
            mean_curve(rows, dataset, "density", name) for name in ("density", "information", "low", "high")
        )
        axis.plot(at, mean, "o-", color=COLOURS[0])
        axis.fill_between(at, low, high, color=COLOURS[0], alpha=0.2)
        axis.set_title(dataset)
        axis.set_xlabel("density score S(x | y*)")
        axis.set_ylabel("mutual information")
        axis.grid(alpha=0.25)
    save(figure, path)


EXPERIMENT = Experiment(
    name="disagreement",
    title="Density against disagreement",
    place="Table 11 and Figure 'score_MI'",
    about=(
        "On test records, y* being the class that the ensemble names: rho is Spearman's, of lower density with higher "
        "variance of the models' probabilities; tail is that variance in the fifth of lowest density over the fifth of "
        "highest; delta is what it grows by on the way from a record to noise. low and high "
        "bound the 95% intervals, bootstrapped over the records. The picture "
        "has the mutual information in tenths of the records by density."
    ),
    full=Scope(REAL, ("density",)),
    quick=Scope(("blood",), ("density",)),
    measures=(*BETTER, *BOUNDS),
    run=run,
    draw=draw,
)
