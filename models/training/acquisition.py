"""Query-efficient local distillation (paper, section of that name), around the answers that the search would give.

Each round runs the flow on training records, decodes where it lands, and buys a few answers from the ensemble: those
that the search would choose at a random price, and some where the surrogate is in doubt about a model's vote. The
surrogate learns from all that was bought so far, then the generator is refined against it. The plausible models vote
on all that the search would choose: a search finds the errors of its surrogate, so that is where it has to be taught
most.
"""

import math
from contextlib import suppress

import numpy as np
import torch
from numpy.typing import NDArray

from ..arrays import Encoded, Records, Targets
from ..ensemble.protocol import Ensemble
from ..errors import QueryLimitError
from ..model import RecourseModel
from ..search.candidates import Candidates, generate
from ..search.local_search import objective, polish
from ..search.scoring import vote_uncertainty
from ..space.constraints import Constraints, compile_constraints
from ..space.feasible import FeasibleSet
from .checkpoint import Steps, straight
from .generator_trainer import GeneratorTrainer
from .pseudo_labels import buy
from .schedule import MovingAverage, Report, set_rate
from .surrogate_trainer import SurrogateTrainer

RECORDS, LANDED = 192, 64
"""A round explains so many training records, and the plausible models vote on all candidates of so many of them."""
CANDIDATES = 20
POLISH_ROUNDS = 3
LEAST_DOUBT = 1e-3
"""So much is added to the doubt about a point, so that each has a chance to be bought."""
COST_WEIGHTS = (0.03, 1.2)
"""A round's prices are drawn between these, evenly in their logarithm."""


def distill(
    model: RecourseModel,
    records: Records,
    labels: Targets,
    ensemble: Ensemble,
    surrogate: SurrogateTrainer,
    generator: GeneratorTrainer,
    random: np.random.Generator,
    report: Report,
    steps: Steps = straight,
) -> None:
    """records (n, F), labels (n,) of the training split. All bought answers end up in surrogate.bought."""
    config = model.config.distill
    generator.average = MovingAverage(model.velocity, model.config.generator.ema)
    for turn in steps("distill", config.rounds):
        chosen, target = _choose(model, records, labels, config.queries, surrogate, random)
        device = surrogate.data.points.device
        # Retries and what a crash left unanswered are charged too: the last rounds may find nothing left to pay with.
        with suppress(QueryLimitError):
            asked, heads = torch.from_numpy(target).to(device), surrogate.bought.votes.shape[1]
            bought = buy(ensemble, model.encoder, chosen, asked, heads)
            surrogate.bought = surrogate.bought.extend(bought)
        if surrogate.free is not None:
            surrogate.free.weigh(surrogate.bought)
        fade = 1.0 - turn / config.rounds
        set_rate(surrogate.optimizer, config.surrogate_rate * (0.2 + 0.8 * fade))
        model.pair.train()
        for _ in range(config.surrogate_steps):
            surrogate.step()
        set_rate(generator.optimizer, config.generator_rate * (0.1 + 0.9 * fade))
        losses = [float(generator.step()) for _ in range(config.generator_steps)]
        report("distill", turn + 1, config.rounds, losses[-1] if losses else 0.0)
    model.pair.eval()
    if config.rounds and config.generator_steps:
        generator.average.apply()


def _choose(
    model: RecourseModel,
    records: Records,
    labels: Targets,
    count: int,
    surrogate: SurrogateTrainer,
    random: np.random.Generator,
) -> tuple[Records, Targets]:
    """The records (q, F) to buy in this round, none of them twice, with their targets (q,)"""
    candidates, answers, target = _search(model, records, labels, random)
    if surrogate.free is not None:
        landed = candidates.points[:LANDED].reshape(-1, model.encoder.width)
        surrogate.free.add(_tensor(landed, surrogate))
        surrogate.free.add(_tensor(answers.points[:, 0], surrogate), practice=True)
    wishes, wished = _wish_list(model, candidates, answers, target, count, random)
    fresh = _fresh_rows(model.encoder.encode(wishes).astype(np.float32), surrogate.bought.points.cpu().numpy())[:count]
    return wishes[fresh], wished[fresh]


def practise(
    model: RecourseModel,
    records: Records,
    labels: Targets,
    surrogate: SurrogateTrainer,
    random: np.random.Generator,
) -> None:
    """The plausible models vote on what the search would choose by now; that costs no query."""
    if surrogate.free is not None:
        _, answers, _ = _search(model, records, labels, random)
        surrogate.free.add(_tensor(answers.points[:, 0], surrogate), practice=True)
        surrogate.free.teach()


def _search(
    model: RecourseModel, records: Records, labels: Targets, random: np.random.Generator
) -> tuple[Candidates, Candidates, Targets]:
    """Some training records explained: candidates (n, c), what the search would return (n, 1), the targets (n,)"""
    model.pair.eval()
    rows = random.integers(len(records), size=min(RECORDS, max(8, len(records))))
    classes = len(model.classes)
    target = (labels[rows] + random.integers(1, classes, size=len(rows))) % classes
    constraints = Constraints(immutable=frozenset(model.encoder.schema.names) - model.generated_features)
    feasible = compile_constraints(model.encoder.schema, constraints, records[rows])
    candidates = generate(model, target, feasible, CANDIDATES, int(random.integers(2**31)))
    cost_weights = np.exp(random.uniform(math.log(COST_WEIGHTS[0]), math.log(COST_WEIGHTS[1]), size=len(rows)))
    return candidates, _answers(model, candidates, target, feasible, cost_weights), target


def _tensor(points: Encoded, surrogate: SurrogateTrainer) -> torch.Tensor:
    return torch.from_numpy(points.astype(np.float32)).to(surrogate.data.points.device)


def _wish_list(
    model: RecourseModel,
    candidates: Candidates,
    answers: Candidates,
    target: Targets,
    count: int,
    random: np.random.Generator,
) -> tuple[Records, Targets]:
    """What there is to buy (w, F), with its targets (w,), the most wanted first

    A third of `count` are answers as they come, which say how good answers are; as many are answers that the surrogate
    is in doubt about; then come other ends of paths, by doubt as well, and the rest.
    """
    answered, ends = answers.records[:, 0], candidates.records.reshape(-1, answers.records.shape[2])
    unsure = _by_doubt(model, answers.points[:, 0], random)
    beside = _by_doubt(model, candidates.points.reshape(len(ends), -1), random)[: len(ends) // 2]
    third, owner = -(-count // 3), np.repeat(target, candidates.cost.shape[1])
    wishes = [answered[:third], answered[unsure[:third]], ends[beside], answered[third:]]
    wished = [target[:third], target[unsure[:third]], owner[beside], target[third:]]
    return np.concatenate(wishes), np.concatenate(wished)


def _by_doubt(model: RecourseModel, points: Encoded, random: np.random.Generator) -> NDArray[np.intp]:
    """points (n, D) -> their positions (n,) as if drawn one after the other, each by its share of the doubt left"""
    return np.argsort(
        random.exponential(size=len(points)) / (vote_uncertainty(model, points) + LEAST_DOUBT), kind="stable"
    )


def _fresh_rows(points: NDArray[np.float32], known: NDArray[np.float32]) -> list[int]:
    """The first of each distinct row of points (n, D) that is not among known (q, D)"""
    seen = {row.tobytes() for row in known}
    fresh = []
    for position, row in enumerate(points):
        if row.tobytes() not in seen:
            seen.add(row.tobytes())
            fresh.append(position)
    return fresh


def _answers(
    model: RecourseModel, candidates: Candidates, target: Targets, feasible: FeasibleSet, cost_weights: np.ndarray
) -> Candidates:
    """What the search would return at these prices (n, 1)."""
    best = objective(candidates, feasible.origin, cost_weights).argmax(axis=1)[:, None]
    return polish(model, candidates.take(best), target, feasible, cost_weights, POLISH_ROUNDS)
