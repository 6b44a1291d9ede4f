"""Does the minority keep its sex on Adult?"""

import numpy as np

from benchmarks.experiments.answers import answer
from benchmarks.experiments.bench import Bench
from benchmarks.experiments.experiment import Experiment, Measure, Measured, Scope
from benchmarks.experiments.pictures import draw_bars
from models.arrays import Records
from models.datasets.dataset import Labelled
from models.ensemble.votes import votes
from models.errors import DataError
from models.evaluation.evaluation import Cases

FEMALE = Measure("female", "higher")
RICH = ">50K"


def balanced(bench: Bench) -> Cases:
    """As many women as men of the lower income whom all models see so, with the higher income as their target"""
    schema, test = bench.encoder.schema, bench.study.test
    code = next(position for position, name in enumerate(schema.classes) if name.strip(". ") == RICH)
    half = bench.settings.records // 2
    random = np.random.default_rng(bench.seed)
    chosen = [_of_sex(bench, test, code, level, half, random) for level in _levels(bench)]
    each = min(len(part) for part in chosen)
    if not each:
        raise DataError("There are no women or no men of the lower income among the test records; use more of them.")
    records = np.concatenate([part[:each] for part in chosen])
    return Cases(records, np.full(len(records), code, dtype=np.int64))


def _levels(bench: Bench) -> tuple[int, int]:
    """The categories of women and of men"""
    categories = bench.encoder.schema.features[bench.encoder.schema.index("sex")].categories
    return categories.index("Female"), categories.index("Male")


def _of_sex(bench: Bench, test: Labelled, rich: int, level: int, count: int, random: np.random.Generator) -> Records:
    column = bench.encoder.schema.index("sex")
    rows = random.permutation(np.flatnonzero((test.labels != rich) & (test.records[:, column] == level)))[: 3 * count]
    right = votes(bench.ensemble.predict_proba(test.records[rows]), test.labels[rows]).all(axis=0)
    return np.asarray(test.records[rows[right]][:count], dtype=np.float64)


def run(bench: Bench, variant: str) -> Measured:
    cases, column, (women, _) = balanced(bench), bench.encoder.schema.index("sex"), _levels(bench)
    before = cases.records[:, column] == women
    if variant == "queries":
        return Measured({"female": float(before.mean()), "records": float(len(cases))})
    model, _ = bench.model()
    answers = answer(bench, model, bench.search(model), cases).records
    held = votes(bench.ensemble.predict_proba(answers), cases.target).mean(axis=0) > 0.5
    after = answers[:, column] == women
    values = {"female": float(after[held].mean()) if held.any() else 0.0, "records": float(held.sum())}
    kept = after[held & before]
    return Measured(values | {"women who stay women": float(kept.mean()) if len(kept) else 0.0})


EXPERIMENT = Experiment(
    name="sex",
    title="Women and men among the answers on Adult",
    place="Table 15",
    about=(
        "As many women as men of the lower income are explained; the share of women among them, and among the answers "
        "that most models accept. The nearer the second is to the first, the less the answers drift to the majority."
    ),
    full=Scope(("adult",), ("queries", "counterfactuals")),
    quick=Scope(("adult",), ("queries", "counterfactuals")),
    measures=(FEMALE, Measure("women who stay women", "higher"), Measure("records", "neither", 0)),
    run=run,
    draw=draw_bars("sex", (FEMALE,)),
)
