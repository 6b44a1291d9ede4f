"""The methods that are compared: ours, the ceiling, simple rules, and the rivals that stand under benchmarks/rivals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiments.answers import processor_seconds
from benchmarks.rivals.argument import Argument
from benchmarks.rivals.betarce import BetaRce
from benchmarks.rivals.packaged import Packaged
from benchmarks.rivals.rival import Problem, Rival, squared_distances
from benchmarks.rivals.robust_nearest import RobustNearest
from benchmarks.survival.material import Material
from models.arrays import Floats, Records
from models.config import SearchConfig
from models.data.records import check_record
from models.ensemble.meter import QueryMeter
from models.ensemble.protocol import Ensemble
from models.evaluation.evaluation import Cases
from models.model import RecourseModel
from models.search.search import explain

MARGIN = 0.6
"""The probability that each asked model has to give the target, by the margin rule."""
LEVEL = 0.9
"""Of the lower bound that a verified answer prints."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers (n, F); answered (n,); what each took; `promised` (n,) is the printed lower bound, where there is one."""

    records: Records
    answered: NDArray[np.bool_]
    queries: Floats
    seconds: float = 0.0
    queries_train: int = 0
    promised: Floats | None = None


Method = Callable[[Material], Answers]


class WithMargin:
    """An ensemble whose models accept only with a probability of MARGIN; implements Ensemble."""

    def __init__(self, ensemble: Ensemble, target: int) -> None:
        self.member_names, self.classes = ensemble.member_names, ensemble.classes
        self._ensemble, self._target = ensemble, target

    def predict_proba(self, records: Records) -> Floats:
        """records (n, F) -> (m, n, K): so much less for the target that a lead of the other class is gone at MARGIN"""
        shares = self._ensemble.predict_proba(records).copy()
        less = MARGIN - 0.5
        shares += less / (len(self.classes) - 1)
        shares[:, :, self._target] -= less + less / (len(self.classes) - 1)
        return np.clip(shares, 0.0, 1.0)


def searched(model: RecourseModel, ensemble: Ensemble, cases: Cases, search: SearchConfig) -> Answers:
    """Our own search, its queries counted and held to the limit"""
    meter = QueryMeter(ensemble, search.max_queries * len(cases))
    started = processor_seconds()
    found = explain(model, cases.records, cases.target, None, search, meter)
    seconds = processor_seconds() - started
    records, bounds = cases.records.copy(), np.full(len(cases), np.nan)
    for row, each in enumerate(found):
        if each.counterfactuals:
            records[row] = check_record(model.encoder.schema, each.counterfactuals[0].record)[0]
            bound = each.counterfactuals[0].lower_bound
            bounds[row] = np.nan if bound is None else bound
    answered = np.array([bool(each.counterfactuals) for each in found])
    queries = np.array([float(each.queries) for each in found])
    promised = bounds if np.isfinite(bounds).any() else None
    return Answers(records, answered, queries, seconds, model.queries, promised)


def verified(max_queries: int, one: bool = False) -> Method:
    """Verified search as it ships: up the frontier until all agree"""
    return _search(lambda seed: SearchConfig(max_queries=max_queries, min_agreement=1.0, seed=seed), one)


def surrogate(one: bool = False) -> Method:
    """The surrogate alone, at the default cost weight"""
    return _search(lambda seed: SearchConfig(seed=seed), one)


def _search(config: Callable[[int], SearchConfig], one: bool) -> Method:
    def run(material: Material) -> Answers:
        cases, ensemble = material.refused, material.asked_one if one else material.asked
        return searched(material.model(one), ensemble, cases, config(material.seed))

    return run


def margin(material: Material) -> Answers:
    """Verified search in which a model accepts from MARGIN on"""
    cases, search = material.refused, SearchConfig(max_queries=10, min_agreement=1.0, seed=material.seed)
    ensemble = WithMargin(material.asked, material.target)
    return replace(searched(material.model(), ensemble, cases, search), promised=None)


def real_approved(material: Material) -> Answers:
    """Real applicants whom all asked models accept: no answer to anybody, but what a good answer looks like"""
    records = material.approved.records
    return Answers(records, np.ones(len(records), dtype=bool), np.zeros(len(records)))


def nearest_agreed(material: Material) -> Answers:
    """The nearest training record that all asked models accept"""
    started, encoder, cases = processor_seconds(), material.free.encoder, material.refused
    accepted = material.accepted_rows
    if not len(accepted):
        return _nothing(cases.records)
    nearest = squared_distances(encoder.encode(cases.records), encoder.encode(accepted)).argmin(axis=1)
    seconds = processor_seconds() - started
    full = np.ones(len(cases), dtype=bool)
    return Answers(accepted[nearest], full, np.zeros(len(cases)), seconds, len(material.free.training))


def rival(make: Callable[[], Rival], one: bool = False) -> Method:
    """A rival that may ask as often as it likes; a record that it leaves as it was counts as not answered"""

    def run(material: Material) -> Answers:
        cases, free = material.refused, material.free
        ensemble = material.asked_one if one else material.asked
        found = make()
        found.fit(Problem(free.encoder, free.training, ensemble, material.seed))
        learned = found.queries.distinct
        started = processor_seconds()
        records = found.explain(cases.records, cases.target)
        seconds = processor_seconds() - started
        same = (records == cases.records) | (np.isnan(records) & np.isnan(cases.records))
        queries = np.full(len(cases), (found.queries.distinct - learned) / len(cases))
        return Answers(records, ~same.all(axis=1), queries, seconds, learned)

    return run


def _nothing(records: Records) -> Answers:
    return Answers(records, np.zeros(len(records), dtype=bool), np.zeros(len(records)))


METHODS: Mapping[str, Method] = {
    "real-approved": real_approved,
    "verified-10": verified(10),
    "verified-50": verified(50),
    "surrogate": surrogate(),
    "margin-60": margin,
    "nearest-agreed": nearest_agreed,
    "verified-10-one": verified(10, one=True),
    "verified-50-one": verified(50, one=True),
    "surrogate-one": surrogate(one=True),
    "argument": rival(Argument),
    "betarce": rival(BetaRce),
    "nice": rival(lambda: Packaged("nice")),
    "rnce": rival(lambda: RobustNearest("rnce")),
    "stce": rival(lambda: RobustNearest("stce")),
    "rnce-one": rival(lambda: RobustNearest("rnce"), one=True),
}
ONE_MODEL = tuple(name for name in METHODS if name.endswith("-one"))
