"""Explaining: records in, counterfactuals out (paper, Algorithm 2, with what METHOD.md, section 6 adds to it).

The answer to a record depends on the model, the record, the target, the constraints and the seed: not on the other
records of the batch (METHOD.md, section 6.7).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Records, Targets
from ..config import SearchConfig
from ..data.records import from_records
from ..ensemble.protocol import Ensemble, charges_of
from ..ensemble.votes import beta_lower_bound
from ..errors import ConfigError, SolverError, TargetError
from ..model import RecourseModel
from ..space.constraints import Constraints, prepare, violations
from ..space.feasible import FeasibleSet
from .answers import Binding, Change, Counterfactual, Explanation, Status, Vote
from .candidates import Candidates, generate, generate_with_origin
from .diagnosis import binding_constraints, diagnose
from .scoring import LogitGradient, is_trusted, typicality
from .selection import best_at_cost_weight, freeze_main_change, weight_path
from .verification import Verified, confirm, verify


def target_codes(model: RecourseModel, target: str, count: int) -> Targets:
    """The class code of the target, once for each of `count` records"""
    if target not in model.classes:
        raise TargetError(f"The target '{target}' is not a class; the classes are {', '.join(model.classes)}.")
    return np.full(count, model.classes.index(target), dtype=np.int64)


def explain(
    model: RecourseModel,
    records: Records,
    target: Targets,
    constraints: Constraints | None = None,
    config: SearchConfig | None = None,
    ensemble: Ensemble | None = None,
) -> list[Explanation]:
    """The nearest records that the black boxes should classify as the target, one `Explanation` for each record.

    model        a trained model (`models.training.train.train`, or `models.storage.artifact.load_model`)
    records      (n, F) raw values, as `models.data.frames.to_records` makes them; NaN where missing
    target       (n,) class codes; `target_codes` makes them from a name
    constraints  what must not change, beyond what the schema says
    config       how many answers, at what cost weight, with how many queries
    ensemble     the black boxes; they are asked only where config.max_queries is above 0

    A record whose constraints leave it nothing gets an answer with the status `error`; its neighbours are explained.

    >>> from dataclasses import replace
    >>> from models.config import Config, GeneratorConfig, RankerConfig, paper
    >>> from models.datasets.dataset import split_dataset
    >>> from models.datasets.synthetic import four_blobs
    >>> from models.training.pipeline import fit
    >>> config = Config(  # far too little training for anything but an example
    ...     surrogate=replace(paper().surrogate, width=32, steps=200),
    ...     generator=GeneratorConfig(steps=50),
    ...     distill=replace(paper().distill, rounds=2, queries=20),
    ...     ranker=RankerConfig(steps=0),
    ... )
    >>> splits = split_dataset(four_blobs(200), seed=0)
    >>> fitted = fit(splits, ["knn", "forest"], "quick", config, query_limit=40)
    >>> records = splits.test.records[splits.test.labels == 0][:3]
    >>> target = target_codes(fitted.model, fitted.model.classes[1], len(records))
    >>> answers = explain(fitted.model, records, target, None, SearchConfig(max_queries=20), fitted.ensemble)
    >>> [answer.status.value for answer in answers]
    ['robust', 'robust', 'robust']
    >>> answers[0].counterfactuals[0].agreement
    1.0
    """
    prepared = prepare(model.encoder.schema, model.generated_features, constraints or Constraints(), records)
    answers = [Explanation(Status.ERROR, (), 0, error=error) for error in prepared.errors]
    if len(prepared.rows):
        found = search(model, target[prepared.rows], prepared.feasible, config or SearchConfig(), ensemble)
        for row, answer in zip(prepared.rows, found, strict=True):
            answers[row] = answer
    return answers


@dataclass(frozen=True, eq=False)
class _Answer:
    """One answer a record (n, 1); `verified` where the ensemble was asked, queries (n,); given (n,): there is one."""

    chosen: Candidates
    verified: Verified | None
    queries: NDArray[np.intp]
    given: NDArray[np.bool_]


def search(
    model: RecourseModel,
    target: Targets,
    feasible: FeasibleSet,
    config: SearchConfig,
    ensemble: Ensemble | None = None,
) -> list[Explanation]:
    """Algorithm 2: the answers to feasible.origin (n, F), config.k for each record.

    1. Candidates: paths of the flow from perturbed starts, and the ways to anchors, decoded and measured.
    2. Records that are in the target class already need no answer.
    3. The best candidate: by the surrogate, or verified with the ensemble. For a further answer, the main change of
       those before is frozen and the search begins anew.
    4. No answer leaves with a broken constraint.

    Targets and constraints may differ from record to record: `models.space.constraints.join` brings them together.
    """
    if config.max_queries and ensemble is None:
        asked_for = f"max_queries is {config.max_queries}, but there is no ensemble to ask"
        raise ConfigError(f"{asked_for}; give one, or 0 queries.")
    ensemble = ensemble if config.max_queries else None
    # A verified search goes from cheap to robust: it wants all candidates, not those that are best at one weight.
    weight = np.full(len(target), config.cost_weight) if ensemble is None else None
    candidates, expected, gradients = generate_with_origin(
        model, target, feasible, config.candidates, config.seed, weight
    )
    already, asked, paid = _already(model, expected, target, feasible, config, ensemble)
    answers: list[_Answer] = []
    open_to, left, possible = feasible, np.where(already, 0, config.max_queries - asked), ~already
    for position in range(config.k):
        if position:
            open_to, possible = freeze_main_change(model, answers[-1].chosen, open_to)
            candidates, gradients = generate(model, target, open_to, config.candidates, config.seed, weight), None
        share = left // (config.k - position)
        answer = _best_answer(model, candidates, gradients, target, open_to, config, ensemble, share)
        left = left - answer.queries
        usable = _worth_giving(answer, config.min_expected_agreement) if position else possible
        answers.append(replace(answer, given=possible & usable))
    _check_exact(model, feasible, answers)
    found = _explanations(model, target, feasible, already, asked, answers, config, ensemble)
    charged = paid + sum(answer.verified.charged for answer in answers if answer.verified is not None)
    return [replace(one, charged=int(cost)) for one, cost in zip(found, charged, strict=True)]


def _already(
    model: RecourseModel,
    expected: Floats,
    target: Targets,
    feasible: FeasibleSet,
    config: SearchConfig,
    ensemble: Ensemble | None,
) -> tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.intp]]:
    """Which records are in the target class already (n,), the queries that it took to know (n,), and their cost (n,)

    Where the ensemble can be asked, it decides and not the surrogate; it is asked only where that is likely.
    """
    likely = (expected >= model.config.search.certain) & feasible.own_fits().all(axis=1)
    asked, paid = np.zeros((2, len(target)), dtype=np.intp)
    if ensemble is None or not likely.any():
        return likely, asked, paid
    rows = np.flatnonzero(likely)
    likely[rows] = confirm(ensemble, feasible.origin[rows], target[rows]) >= config.min_agreement - 1e-9
    asked[rows], paid[rows] = 1, charges_of(ensemble, len(rows))
    return likely, asked, paid


def _best_answer(
    model: RecourseModel,
    candidates: Candidates,
    gradients: LogitGradient | None,
    target: Targets,
    feasible: FeasibleSet,
    config: SearchConfig,
    ensemble: Ensemble | None,
    limit: NDArray[np.intp],
) -> _Answer:
    """The best answer (n, 1) within the constraints; with an ensemble, at most limit (n,) queries each"""
    everyone = np.ones(len(target), dtype=np.bool_)
    if ensemble is None:
        weight, least = np.full(len(target), config.cost_weight), config.min_expected_agreement
        rounds, starts = config.polish_rounds, config.polish_starts
        chosen = best_at_cost_weight(model, candidates, target, feasible, weight, least, rounds, starts, gradients)
        return _Answer(chosen, None, np.zeros_like(limit), everyone)
    levels = weight_path(model, candidates, target, feasible, config.polish_rounds)
    most_agreed = np.argsort(-candidates.agreement, axis=1, kind="stable")
    fallbacks = candidates.take(most_agreed[:, : model.config.search.verification.fallbacks])
    verified = verify(model, levels, fallbacks, target, feasible, ensemble, config.min_agreement, limit)
    return _Answer(verified.best, verified, verified.queries, everyone)


def _worth_giving(answer: _Answer, min_expected_agreement: float) -> NDArray[np.bool_]:
    """Whether a further answer is expected to hold (n,), and most of the models did not refuse it when asked."""
    expected: NDArray[np.bool_] = answer.chosen.agreement[:, 0] >= min_expected_agreement
    if answer.verified is None:
        return expected
    refused: NDArray[np.bool_] = (answer.verified.queries > 0) & (answer.verified.agreement <= 0.5)
    return expected & ~refused


def _check_exact(model: RecourseModel, feasible: FeasibleSet, answers: list[_Answer]) -> None:
    """No answer leaves with a broken constraint, whatever happened before."""
    for answer in answers:
        broken = violations(model.encoder.schema, feasible.origin, answer.chosen.records[:, 0], feasible)
        if broken.any():
            row, feature = np.argwhere(broken)[0]
            raise SolverError(
                f"The answer to row {row + 1} breaks a constraint on '{model.encoder.schema.names[feature]}'."
            )


def _explanations(
    model: RecourseModel,
    target: Targets,
    feasible: FeasibleSet,
    already: NDArray[np.bool_],
    asked: NDArray[np.intp],
    answers: list[_Answer],
    config: SearchConfig,
    ensemble: Ensemble | None,
) -> list[Explanation]:
    """The answers in the words of the service."""
    members = ensemble.member_names if ensemble is not None else ()
    statuses = [_status(answers[0], row, bool(already[row]), config) for row in range(len(target))]
    lost = np.flatnonzero([status is Status.INFEASIBLE for status in statuses])
    binding = dict(zip(lost.tolist(), _bindings(model, answers[0], target, feasible, lost), strict=True))
    explanations = []
    for row, status in enumerate(statuses):
        given = [answer for answer in answers if answer.given[row] and status is not Status.ALREADY_TARGET]
        queries = int(asked[row]) + sum(int(answer.queries[row]) for answer in answers)
        found = tuple(_counterfactual(model, answer, row, int(target[row]), feasible, members) for answer in given)
        diagnosis = None
        if status is Status.INFEASIBLE:
            first = found[0]
            share = first.expected_agreement if first.agreement is None else first.agreement
            dissenting = tuple(vote.model for vote in first.votes if vote.accepts is False)
            wanted = config.min_agreement if ensemble is not None else config.min_expected_agreement
            diagnosis = diagnose(share, first.agreement is not None, dissenting, binding[row], wanted)
        explanations.append(Explanation(status, found, queries, diagnosis))
    return explanations


def _bindings(
    model: RecourseModel, answer: _Answer, target: Targets, feasible: FeasibleSet, rows: NDArray[np.intp]
) -> list[tuple[Binding, ...]]:
    if not len(rows):
        return []
    return binding_constraints(model, answer.chosen.take_rows(rows), target[rows], feasible.rows(rows))


def _status(answer: _Answer, row: int, already: bool, config: SearchConfig) -> Status:
    if already:
        return Status.ALREADY_TARGET
    if answer.verified is not None and answer.verified.queries[row]:
        if answer.verified.found[row]:
            return Status.ROBUST if answer.chosen.cost[row, 0] > 0 else Status.ALREADY_TARGET
        return Status.VALID if answer.verified.agreement[row] > 0.5 else Status.INFEASIBLE
    return (
        Status.VALID
        if answer.chosen.agreement[row, 0] >= max(config.min_expected_agreement, 0.5)
        else Status.INFEASIBLE
    )


def _counterfactual(
    model: RecourseModel, answer: _Answer, row: int, target: int, feasible: FeasibleSet, members: tuple[str, ...]
) -> Counterfactual:
    """The answer to one record, in raw values."""
    schema = model.encoder.schema
    before, after = from_records(schema, np.stack([feasible.origin[row], answer.chosen.records[row, 0]]))
    changes = tuple(Change(name, before[name], after[name]) for name in schema.names if before[name] != after[name])
    votes: tuple[Vote, ...] = ()
    share: float | None = None
    bound: float | None = None
    if answer.verified is not None and answer.verified.queries[row]:
        said, heard = answer.verified.votes[:, row], answer.verified.answered[:, row]
        votes = tuple(Vote(name, bool(s) if h else None) for name, s, h in zip(members, said, heard, strict=True))
        share = float(answer.verified.agreement[row])
        bound = beta_lower_bound(int(said.sum()), int((heard & ~said).sum()))
    density = float(answer.chosen.density[row, 0])
    typical = typicality(model, target, density)
    return Counterfactual(
        record=after,
        changes=changes,
        cost=float(answer.chosen.cost[row, 0]),
        density=density,
        typicality=typical,
        trusted=is_trusted(model, density, typical),
        expected_agreement=float(answer.chosen.agreement[row, 0]),
        votes=votes,
        agreement=share,
        lower_bound=bound,
    )
