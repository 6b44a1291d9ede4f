"""Explaining: records in, counterfactuals out (paper, Algorithm 2, with what METHOD.md, section 6 adds to it).

The answer to a record depends on the model, the record, the target, the constraints and the seed: not on the other
records of the batch (METHOD.md, section 6.7).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Records, Targets
from ..config import SearchConfig
from ..ensemble.protocol import Ensemble, charges_of
from ..ensemble.votes import agreement, answered, votes
from ..errors import ConfigError, SolverError, TargetError
from ..model import RecourseModel
from ..space.constraints import Constraints, violations
from ..space.feasible import FeasibleSet
from .answers import Explanation, Status
from .candidates import Candidates, generate, generate_with_origin
from .exhaustive import best_of_all, verify_all
from .explanations import Answer, AsItIs, expects_enough, explanations
from .local_search import count_changes
from .scoring import LogitGradient
from .selection import best_at_cost_weight, freeze_main_change
from .verification import TOLERANCE, verify


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
    >>> from models.config import Config, GeneratorConfig, paper
    >>> from models.datasets.dataset import split_dataset
    >>> from models.datasets.synthetic import four_blobs
    >>> from models.training.pipeline import fit
    >>> config = Config(  # far too little training for anything but an example
    ...     surrogate=replace(paper().surrogate, width=32, steps=200),
    ...     generator=GeneratorConfig(steps=50),
    ...     distill=replace(paper().distill, rounds=2, queries=20),
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
    prepared = model.prepared(constraints or Constraints(), records)
    answers = [Explanation(Status.ERROR, (), 0, error=error) for error in prepared.errors]
    if len(prepared.rows):
        found = search(model, target[prepared.rows], prepared.feasible, config or SearchConfig(), ensemble)
        for row, answer in zip(prepared.rows, found, strict=True):
            answers[row] = answer
    return answers


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
    4. No answer leaves with a broken constraint, and none that changes nothing.

    Targets and constraints may differ from record to record: `models.space.constraints.join` brings them together.
    """
    if config.max_queries and ensemble is None:
        asked_for = f"max_queries is {config.max_queries}, but there is no ensemble to ask"
        raise ConfigError(f"{asked_for}; give one, or 0 queries.")
    ensemble = ensemble if config.max_queries else None
    candidates, expected, gradients = generate_with_origin(model, target, feasible, config.candidates, config.seed)
    own = _as_it_is(model, expected, target, feasible, config, ensemble)
    answers: list[Answer] = []
    open_to, left, possible = feasible, np.where(own.already, 0, config.max_queries - own.queries), ~own.already
    for position in range(config.k):
        if position:
            open_to, possible = freeze_main_change(model, answers[-1].chosen, open_to)
            candidates, gradients = generate(model, target, open_to, config.candidates, config.seed), None
        share = left // (config.k - position)
        answer = _best_answer(model, candidates, gradients, target, open_to, own, config, ensemble, share)
        left = left - answer.queries
        usable = _worth_giving(answer, config.min_expected_agreement) if position else possible
        answers.append(replace(answer, given=possible & usable & answer.changed))
    _check_exact(model, feasible, answers)
    members = () if ensemble is None else ensemble.member_names
    found = explanations(model, target, feasible, own, answers, config, members)
    charged = own.charged + sum(answer.verified.charged for answer in answers if answer.verified is not None)
    return [replace(one, charged=int(cost)) for one, cost in zip(found, charged, strict=True)]


def _as_it_is(
    model: RecourseModel,
    expected: Floats,
    target: Targets,
    feasible: FeasibleSet,
    config: SearchConfig,
    ensemble: Ensemble | None,
) -> AsItIs:
    """Which records are in the target class already.

    Where the ensemble can be asked, it decides and not the surrogate; it is asked only where that is likely.
    """
    count = len(target)
    fits: NDArray[np.bool_] = np.asarray(feasible.own_fits().all(axis=1))
    likely = (expected >= model.config.search.certain) & fits
    share = np.full(count, np.nan)
    said, heard = np.zeros((2, 0 if ensemble is None else len(ensemble.member_names), count), dtype=np.bool_)
    asked, paid = np.zeros((2, count), dtype=np.intp)
    if ensemble is not None and likely.any():
        rows = np.flatnonzero(likely)
        answer = ensemble.predict_proba(feasible.origin[rows])
        share[rows] = agreement(answer, target[rows])
        said[:, rows], heard[:, rows] = votes(answer, target[rows]), answered(answer)
        likely[rows] = share[rows] >= config.min_agreement - TOLERANCE
        asked[rows], paid[rows] = 1, charges_of(ensemble, len(rows))
    return AsItIs(likely, fits, expected, said, heard, share, asked, paid)


def _best_answer(
    model: RecourseModel,
    candidates: Candidates,
    gradients: LogitGradient | None,
    target: Targets,
    feasible: FeasibleSet,
    own: AsItIs,
    config: SearchConfig,
    ensemble: Ensemble | None,
    limit: NDArray[np.intp],
) -> Answer:
    """The best answer (n, 1) within the constraints; with an ensemble, at most limit (n,) queries each"""
    if ensemble is None:
        return _expected_answer(model, candidates, gradients, target, feasible, own, config, np.zeros_like(limit))
    asked, rounds = own.queries > 0, config.polish_rounds
    verified = verify(model, candidates, target, feasible, ensemble, config.min_agreement, limit, rounds, asked)
    listing = None if verified.found.all() else verify_all(model, verified, target, feasible)
    changed, known = _changed(verified.best, feasible), np.fmax(own.agreement, verified.unchanged)
    more = ~(verified.agreement <= known + TOLERANCE)
    better = changed & np.where(verified.queries > 0, more, _expects_more(verified.best, own))
    return Answer(verified.best, verified, verified.queries, changed, better, changed, listing)


def _expected_answer(
    model: RecourseModel,
    candidates: Candidates,
    gradients: LogitGradient | None,
    target: Targets,
    feasible: FeasibleSet,
    own: AsItIs,
    config: SearchConfig,
    queries: NDArray[np.intp],
) -> Answer:
    """The best answer (n, 1) by the surrogate alone.

    Where that is no better than the record as it is, of which nobody is certain, the best of what is certain; unless
    the decision is the cost weight's alone.
    """
    weight, floor = np.full(len(target), config.cost_weight), config.min_expected_agreement
    rounds, starts = config.polish_rounds, config.polish_starts
    chosen = best_at_cost_weight(model, candidates, target, feasible, weight, floor, rounds, starts, gradients)
    better = _changed(chosen, feasible) & _expects_more(chosen, own)
    rows = np.flatnonzero(~own.already & ~better & expects_enough(chosen, floor) & (floor > 0))
    if len(rows):
        certain = max(floor, model.config.search.certain)
        some, wanted, within = candidates.take_rows(rows), target[rows], feasible.rows(rows)
        found = best_at_cost_weight(model, some, wanted, within, weight[rows], certain, rounds, starts)
        chosen = chosen.replace_rows(rows, found)
    good = own.already | (_changed(chosen, feasible) & _expects_more(chosen, own) & expects_enough(chosen, floor))
    open_to = np.flatnonzero(~good)
    listing = None
    if len(open_to):
        chosen, listing = best_of_all(model, open_to, target, feasible, chosen, weight, max(floor, 0.5))
    changed = _changed(chosen, feasible)
    return Answer(chosen, None, queries, changed, changed & _expects_more(chosen, own), changed, listing)


def _changed(chosen: Candidates, feasible: FeasibleSet) -> NDArray[np.bool_]:
    """chosen (n, 1) -> whether each is allowed, and differs from the record (n,)"""
    changed: NDArray[np.bool_] = count_changes(chosen.records[:, 0], feasible.origin) > 0
    return changed & chosen.allowed[:, 0]


def _expects_more(chosen: Candidates, own: AsItIs) -> NDArray[np.bool_]:
    """chosen (n, 1) -> whether more agreement is expected than of the record as it is, where it may stay so (n,)"""
    more: NDArray[np.bool_] = ~own.fits | (chosen.agreement[:, 0] > own.expected)
    return more


def _worth_giving(answer: Answer, min_expected_agreement: float) -> NDArray[np.bool_]:
    """Whether a further answer is expected to hold (n,), and most of the models did not refuse it when asked."""
    expected: NDArray[np.bool_] = answer.better & (answer.chosen.agreement[:, 0] >= min_expected_agreement)
    if answer.verified is None:
        return expected
    refused: NDArray[np.bool_] = (answer.verified.queries > 0) & (answer.verified.agreement <= 0.5)
    return expected & ~refused


def _check_exact(model: RecourseModel, feasible: FeasibleSet, answers: list[Answer]) -> None:
    """No answer leaves with a broken constraint, whatever happened before."""
    for answer in answers:
        if feasible.rules is not None:
            bad = answer.given & ~feasible.rules.allowed(answer.chosen.records)[:, 0]
            if bad.any():
                raise SolverError(f"The answer to row {np.flatnonzero(bad)[0] + 1} breaks a rule of the policy.")
            continue
        broken = violations(model.encoder.schema, feasible.origin, answer.chosen.records[:, 0], feasible)
        broken &= answer.given[:, None]
        if broken.any():
            row, feature = np.argwhere(broken)[0]
            raise SolverError(
                f"The answer to row {row + 1} breaks a constraint on '{model.encoder.schema.names[feature]}'."
            )
