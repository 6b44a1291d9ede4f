"""Every method of the comparison by name: ours, the limit, and the rivals."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from benchmarks.experiments.answers import Answers, answer, processor_seconds
from benchmarks.experiments.bench import Bench
from benchmarks.rivals.argument import Argument
from benchmarks.rivals.betarce import BetaRce
from benchmarks.rivals.ceflow import CeFlow
from benchmarks.rivals.packaged import Packaged
from benchmarks.rivals.product_mip import ProductMip
from benchmarks.rivals.rival import Problem, Queries, Rival
from models.config import Config, SearchConfig
from models.evaluation.evaluation import Cases
from models.evaluation.oracle import oracle
from models.space.constraints import Constraints, compile_constraints

LEAN, LEAN_QUERIES = "densityflow-lean", 240
"""Half of the queries and a fifth of the steps: what a lender of little data would train."""
OURS = ("densityflow", LEAN, "densityflow-verified", "densityflow-verified-50")
LIMIT = "oracle"
DIALS = ("densityflow", LEAN)
"""Those that ask nothing once they are trained."""
VERIFIED = {"densityflow-verified": 10, "densityflow-verified-50": 50}
"""What verified search may ask for each record."""

RIVALS: Mapping[str, Callable[[], Rival]] = {
    "product_mip": ProductMip,
    "ceflow": CeFlow,
    "betarce": BetaRce,
    "argument": Argument,
    "argument-d": lambda: Argument("d"),
    "dice": lambda: Packaged("dice"),
    "nice": lambda: Packaged("nice"),
}
BLACK_BOX = ("betarce", "argument", "argument-d", "dice", "nice")
"""Those that ask the ensemble; the others learn from the data alone."""
SLOW = ("product_mip", "betarce", "dice", "nice")
"""Those that take up to seconds a record."""

METHODS = (*OURS, *RIVALS, LIMIT)


def answers_of(bench: Bench, method: str) -> Answers:
    """The method on the cases of the bench, or on the first few of them where it is slow"""
    if method in DIALS:
        model, seconds = bench.model(config_of(bench, method))
        return answer(bench, model, bench.search(model), fit_seconds=seconds)
    if method in VERIFIED:
        model, seconds = bench.model()
        search = SearchConfig(max_queries=VERIFIED[method], min_agreement=1.0, seed=bench.seed)
        return answer(bench, model, search, fit_seconds=seconds)
    if method == LIMIT:
        return _limit(bench)
    count = bench.settings.slow_records if method in SLOW else bench.settings.records
    return rival_answers(bench, RIVALS[method](), bench.cases.first(count))


def with_queries(config: Config, budget: int) -> Config:
    """The same rounds with fewer or more queries each; without a query there is no round"""
    rounds = config.distill.rounds
    if budget < rounds:
        return replace(config, distill=replace(config.distill, rounds=0))
    return replace(config, distill=replace(config.distill, queries=budget // rounds))


def config_of(bench: Bench, method: str) -> Config:
    """What our method of this name is trained with"""
    return with_queries(bench.varied_config, LEAN_QUERIES) if method == LEAN else bench.config


def rival_answers(bench: Bench, rival: Rival, cases: Cases) -> Answers:
    """What the rival learns and answers; the surrogate of a white-box one is held against the ensemble"""
    started = processor_seconds()
    rival.fit(Problem(bench.encoder, bench.study.training, bench.ensemble, bench.seed))
    fitted = processor_seconds()
    records = rival.explain(cases.records, cases.target)
    ended = processor_seconds()
    extra = {"fidelity": _fidelity(bench, rival)} if isinstance(rival, ProductMip | CeFlow) else {}
    if isinstance(rival, ProductMip):
        extra["proven"] = rival.proven
    return Answers(cases, records, rival.queries, fitted - started, ended - fitted, rival.note, extra)


def _fidelity(bench: Bench, rival: ProductMip | CeFlow) -> float:
    """The share of test records that the surrogate puts where most of the models do"""
    records = bench.study.test.records[: 5 * bench.settings.records]
    said = bench.ensemble.predict_proba(records).argmax(axis=2)
    counts = np.stack([(said == each).sum(axis=0) for each in range(len(bench.ensemble.classes))])
    return float((rival.surrogate_classes(records) == counts.argmax(axis=0)).mean())


def _limit(bench: Bench) -> Answers:
    """The oracle may ask as often as it likes (METHOD.md, section 8)"""
    cases, training = bench.cases, bench.study.training
    feasible = compile_constraints(bench.encoder.schema, Constraints(), cases.records)
    started = processor_seconds()
    found = oracle(bench.ensemble, bench.encoder, training.records, feasible, cases.target, labels=training.labels)
    seconds = processor_seconds() - started
    return Answers(cases, found.records, Queries(found.queries, found.queries), 0.0, seconds, "may ask without limit")
