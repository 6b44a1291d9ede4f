"""How good the answers are: the protocol of METHOD.md, section 8, beside the paper's own figures.

Test records that every black box classifies correctly get one counterfactual each, to another class, by three methods:
the surrogate alone, verified search, and the oracle. Whatever is reported is measured on the decoded record, which is
encoded again and put to the black boxes once more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor

from ..arrays import Encoded, Records, Targets
from ..config import EvaluationConfig, OracleConfig, SearchConfig
from ..data.records import check_record
from ..datasets.dataset import Labelled, Splits
from ..ensemble.meter import QueryMeter
from ..ensemble.protocol import Ensemble
from ..ensemble.votes import votes
from ..errors import DataError
from ..model import RecourseModel
from ..search.answers import Explanation
from ..search.frontier import cost_weight_within
from ..search.local_search import count_changes
from ..search.scoring import score_points
from ..search.search import explain
from ..space.encoding import Encoder, cost
from .oracle import oracle
from .survival import Group, survival

LEAST_CASES = 20
"""With fewer records of which the surrogate is firm, all set the cost weight."""

Method: TypeAlias = Literal["densityflow", "densityflow-verified", "oracle"]


@dataclass(frozen=True, slots=True)
class Quality:
    """One method on one test split; all but the first and the last three are means over the records.

    validity and unanimity are shares: of the votes for the target, and of the records that have every vote. price is
    the cost weight of the search, None where it plays no part.
    """

    method: Method
    validity: float
    unanimity: float
    cost: float
    sparsity: float
    queries_per_explanation: float
    explain_ms: float
    lof: float
    isoforest: float
    max_queries_used: int
    queries_train: int
    train_seconds: float
    records: int
    price: float | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The three methods, and the survival of each by group, where groups were given."""

    qualities: tuple[Quality, ...]
    survival: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, eq=False)
class Cases:
    """The records (n, F) to explain and their targets (n,)."""

    records: Records
    target: Targets

    def __len__(self) -> int:
        return len(self.records)

    def first(self, count: int) -> "Cases":
        return Cases(self.records[:count], self.target[:count])


@dataclass(frozen=True, eq=False)
class Answers:
    """Counterfactuals (n, F), the queries of each (n,) and the seconds that all took."""

    records: Records
    queries: NDArray[np.float64]
    seconds: float


def evaluate(
    model: RecourseModel,
    ensemble: Ensemble,
    splits: Splits,
    config: EvaluationConfig,
    train_seconds: float = 0.0,
    groups: Mapping[str, Group] | None = None,
) -> Evaluation:
    """The model against the ensemble that it was distilled from; both learned from the training split

    groups  models that nobody asked (survival.py): which share of them accepts the answers of each method
    """
    cases = choose_cases(ensemble, splits.test, config.records, config.seed)
    detectors = fit_detectors(model.encoder.encode(splits.training.records), config)
    judge = _Judge(model, ensemble, detectors, train_seconds)
    free = _free_search(model, len(ensemble.member_names), splits.validation, config)
    verified = SearchConfig(max_queries=config.max_queries, min_agreement=1.0, seed=config.seed)
    few = cases.first(config.oracle_records)
    found = (
        search_answers(model, cases, free, ensemble),
        search_answers(model, few, verified, ensemble),
        oracle_answers(model, few, ensemble, splits.training),
    )
    qualities = (
        judge.quality("densityflow", cases, found[0], free.cost_weight),
        judge.quality("densityflow-verified", few, found[1], None),
        judge.quality("oracle", few, found[2], None),
    )
    others = tuple(_survival(groups or {}, cases.first(len(each.records)), each.records) for each in found)
    return Evaluation(qualities, others)


def choose_cases(ensemble: Ensemble, test: Labelled, count: int, seed: int) -> Cases:
    """At most `count` test records that all models classify correctly, in an order that the seed decides."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(test))
    right: list[NDArray[np.intp]] = []
    for start in range(0, len(order), 2 * count):
        rows = order[start : start + 2 * count]
        right.append(rows[votes(ensemble.predict_proba(test.records[rows]), test.labels[rows]).all(axis=0)])
        if sum(len(found) for found in right) >= count:
            break
    rows = np.concatenate([order[:0], *right])[:count]
    if not len(rows):
        members = len(ensemble.member_names)
        raise DataError(f"None of the {len(test)} test records is classified correctly by all {members} models.")
    classes = len(ensemble.classes)
    return Cases(test.records[rows], (test.labels[rows] + random.integers(1, classes, size=len(rows))) % classes)


def firm_cases(model: RecourseModel, split: Labelled, members: int, count: int, seed: int) -> Cases:
    """As `choose_cases`, without a query: the surrogate expects less than one of so many models to say the target

    All records where that holds for too few.
    """
    random, classes = np.random.default_rng(seed), len(model.classes)
    target = (split.labels + random.integers(1, classes, size=len(split))) % classes
    expected = score_points(model, model.encoder.encode(split.records), target).agreement
    order = random.permutation(len(split))
    firm = order[expected[order] < 1 / members]
    rows = (firm if len(firm) >= LEAST_CASES else order)[:count]
    return Cases(split.records[rows], target[rows])


def _free_search(model: RecourseModel, members: int, validation: Labelled, config: EvaluationConfig) -> SearchConfig:
    """Search without a query; with a budget the cost weight alone decides, and it is set without a query as well."""
    if config.cost_budget is None:
        return SearchConfig(seed=config.seed)
    cases = firm_cases(model, validation, members, config.weight_records, config.seed)
    price = cost_weight_within(
        model, cases.records, cases.target, config.cost_budget, config.seed, config.standard_errors
    )
    return SearchConfig(cost_weight=price, min_expected_agreement=0.0, seed=config.seed)


def search_answers(model: RecourseModel, cases: Cases, config: SearchConfig, ensemble: Ensemble) -> Answers:
    """One timed call for all cases; the meter holds the ensemble to what the config allows."""
    meter = QueryMeter(ensemble, config.max_queries * len(cases))
    started = perf_counter()
    found = explain(model, cases.records, cases.target, None, config, meter)
    seconds = perf_counter() - started
    queries = np.array([explanation.queries for explanation in found], dtype=np.float64)
    return Answers(answered_records(model.encoder, cases.records, found), queries, seconds)


def answered_records(encoder: Encoder, records: Records, found: list[Explanation]) -> Records:
    """The first counterfactual of each (n, F); where there is none, the record as it was: valid for nobody."""
    answers = records.copy()
    for row, explanation in enumerate(found):
        if explanation.counterfactuals:
            answers[row] = check_record(encoder.schema, explanation.counterfactuals[0].record)[0]
    return answers


def _survival(groups: Mapping[str, Group], cases: Cases, answers: Records) -> Mapping[str, float]:
    """The mean share of each group that accepts; an answer that changes nothing is none"""
    answered = count_changes(answers, cases.records) > 0
    shares = survival(groups, answers, cases.target, answered)
    return {name: float(each.mean()) for name, each in shares.items()}


def oracle_answers(
    model: RecourseModel, cases: Cases, ensemble: Ensemble, training: Labelled, config: OracleConfig | None = None
) -> Answers:
    """The oracle, which may change what the model may change."""
    feasible = model.feasible(cases.records)
    started = perf_counter()
    found = oracle(ensemble, model.encoder, training.records, feasible, cases.target, config, training.labels)
    seconds = perf_counter() - started
    return Answers(found.records, np.full(len(cases), found.queries / len(cases)), seconds)


@dataclass(frozen=True, eq=False)
class OutlierDetectors:
    """How unusual a record is, to detectors that know nothing of the method (paper, Table "plausibility").

    LOF and an isolation forest, fitted to training points; the lower a score, the more usual the point.
    """

    local: LocalOutlierFactor
    forest: IsolationForest

    def lof(self, points: Encoded) -> NDArray[np.float64]:
        """points (n, D) -> local outlier factors (n,); about 1 is usual"""
        factors: NDArray[np.float64] = -self.local.score_samples(points)
        return factors

    def isolation(self, points: Encoded) -> NDArray[np.float64]:
        """points (n, D) -> anomaly scores (n,) from 0 to 1"""
        scores: NDArray[np.float64] = -self.forest.score_samples(points)
        return scores


def fit_detectors(points: Encoded, config: EvaluationConfig) -> OutlierDetectors:
    """points (n, D) of the training split.

    LOF is fitted to distinct points: where a point occurs more often than a neighbourhood is large, its density has no
    bound, and the factor of anything beside it neither.
    """
    random = np.random.default_rng(config.seed)
    sample = points[np.sort(random.permutation(len(points))[: config.outlier_points])]
    distinct = np.unique(sample, axis=0)
    neighbours = min(config.outlier_neighbours, len(distinct) - 1)
    local = LocalOutlierFactor(n_neighbors=neighbours, novelty=True)
    return OutlierDetectors(local.fit(distinct), IsolationForest(random_state=config.seed).fit(sample))


@dataclass(frozen=True, eq=False)
class _Judge:
    """Measures answers without knowing where they come from."""

    model: RecourseModel
    ensemble: Ensemble
    detectors: OutlierDetectors
    train_seconds: float

    def quality(self, method: Method, cases: Cases, answers: Answers, price: float | None) -> Quality:
        encoder = self.model.encoder
        points = encoder.encode(answers.records)
        agreed = votes(self.ensemble.predict_proba(answers.records), cases.target)
        return Quality(
            method=method,
            validity=float(agreed.mean()),
            unanimity=float(agreed.all(axis=0).mean()),
            cost=float(cost(points, encoder.encode(cases.records)).mean()),
            sparsity=float(count_changes(answers.records, cases.records).mean()),
            queries_per_explanation=float(answers.queries.mean()),
            explain_ms=1000 * answers.seconds / len(cases),
            lof=float(self.detectors.lof(points).mean()),
            isoforest=float(self.detectors.isolation(points).mean()),
            max_queries_used=int(np.ceil(answers.queries.max())),
            queries_train=0 if method == "oracle" else self.model.queries,
            train_seconds=0.0 if method == "oracle" else self.train_seconds,
            records=len(cases),
            price=price,
        )


@dataclass(frozen=True, slots=True)
class Published:
    """The mean cost and the validity of the counterfactuals on one data set."""

    cost: float
    validity: float


PUBLISHED: Mapping[str, Published] = {
    "moons": Published(0.867, 0.997),
    "circles": Published(0.683, 0.994),
    "spirals": Published(0.487, 0.972),
    "chessboard": Published(1.088, 0.964),
    "adult": Published(1.597, 0.901),
    "compas": Published(1.176, 0.729),
    "heloc": Published(1.812, 0.757),
    "blood": Published(1.527, 0.662),
    "musk": Published(8.73, 0.85),
}
"""The paper's figures; Musk with the ten features of DensityFlow-FS (table "DensityFlow-FS on the Musk dataset")."""
