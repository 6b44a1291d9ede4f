"""Query-efficient local distillation (docs/METHOD.md, section 4; paper, section of that name).

Each round explains some training records with the model as it is, picks an acquisition batch among the answers and the
other ends of paths, and queries the ensemble for its labels: some answers as they come, and points drawn by uncertainty
sampling. The surrogate learns from all labels so far, then the generator is refined against the surrogate.

The jury labels the answers of these searches and the ends of some paths, which costs no query.
"""

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ..arrays import Encoded, Records, Targets
from ..datasets.dataset import Labelled
from ..ensemble.protocol import Ensemble
from ..errors import QueryLimitError
from ..model import RecourseModel
from ..search.candidates import Candidates, generate
from ..search.local_search import objective, polish
from ..search.scoring import vote_uncertainty
from ..space.feasible import FeasibleSet
from .checkpoint import Steps, all_steps
from .generator_trainer import GeneratorTrainer
from .pseudo_labels import query_ensemble
from .schedule import MovingAverage, Report, set_rate
from .surrogate_trainer import SurrogateTrainer


@dataclass(frozen=True, eq=False)
class Acquisition:
    """What is asked and labelled next: the search explains training records with the model as it is by now.

    `surrogate` holds the labels and takes up what is labelled here; `random` decides all that is drawn.
    """

    model: RecourseModel
    training: Labelled
    surrogate: SurrogateTrainer
    random: np.random.Generator

    def batch(self, count: int) -> tuple[Records, Targets]:
        """The records (q, F), `count` at the most, to query in this round, none of them twice; their targets (q,)"""
        model, surrogate = self.model, self.surrogate
        candidates, answers, target = self._search()
        if surrogate.pseudo_labels is not None:
            ends = candidates.points[: model.config.acquisition.labelled].reshape(-1, model.encoder.width)
            surrogate.pseudo_labels.add(self._tensor(ends))
            surrogate.pseudo_labels.add(self._tensor(answers.points[:, 0]))
        pool, targets = self._ranked_pool(candidates, answers, target, count)
        points, known = model.encoder.encode(pool).astype(np.float32), surrogate.queried.points.cpu().numpy()
        fresh = _fresh_rows(points, known)[:count]
        return pool[fresh], targets[fresh]

    def _search(self) -> tuple[Candidates, Candidates, Targets]:
        """Some training records explained: candidates (n, c), what the search would return (n, 1), the targets (n,)"""
        model, random, config = self.model, self.random, self.model.config.acquisition
        model.pair.eval()
        rows = random.integers(len(self.training), size=min(config.records, max(8, len(self.training))))
        shift = random.integers(1, len(model.classes), size=len(rows))
        target = (self.training.labels[rows] + shift) % len(model.classes)
        feasible = model.feasible(self.training.records[rows])
        candidates = generate(model, target, feasible, config.candidates, int(random.integers(2**31)))
        low, high = math.log(config.cost_weight_low), math.log(config.cost_weight_high)
        cost_weights = np.exp(random.uniform(low, high, size=len(rows)))
        return candidates, _answers(model, candidates, target, feasible, cost_weights), target

    def _tensor(self, points: Encoded) -> torch.Tensor:
        return torch.from_numpy(points.astype(np.float32)).to(self.surrogate.data.points.device)

    def _ranked_pool(
        self, candidates: Candidates, answers: Candidates, target: Targets, count: int
    ) -> tuple[Records, Targets]:
        """The pool that a batch of `count` is taken from: records (w, F), targets (w,), the most wanted first

        First answers as they come (by default a third of `count`), which say how good answers are; then as many answers
        drawn by uncertainty; then other ends of paths, drawn by uncertainty as well, and the rest.
        """
        config = self.model.config.acquisition
        answered, ends = answers.records[:, 0], candidates.records.reshape(-1, answers.records.shape[2])
        unsure = _by_uncertainty(self.model, answers.points[:, 0], self.random)
        beside = _by_uncertainty(self.model, candidates.points.reshape(len(ends), -1), self.random)
        beside = beside[: int(len(ends) * config.beside)]
        first, owner = math.ceil(count * config.as_they_come), np.repeat(target, candidates.cost.shape[1])
        pool = [answered[:first], answered[unsure[:first]], ends[beside], answered[first:]]
        targets = [target[:first], target[unsure[:first]], owner[beside], target[first:]]
        return np.concatenate(pool), np.concatenate(targets)


def distill(
    acquisition: Acquisition, ensemble: Ensemble, generator: GeneratorTrainer, report: Report, steps: Steps = all_steps
) -> None:
    """All rounds. Surrogate and generator are trained in place; what was queried ends up in `surrogate.queried`.

    A round that the query limit refuses learns from the labels of the others.
    """
    model, surrogate = acquisition.model, acquisition.surrogate
    config = model.config.distill
    generator.average = MovingAverage(model.velocity, model.config.generator.ema)
    for turn in steps("distill", config.rounds):
        chosen, target = acquisition.batch(config.queries)
        # Retries and what a crash left unanswered are charged too: the last rounds may find nothing left to pay with.
        with suppress(QueryLimitError):
            asked = torch.from_numpy(target).to(model.device)
            fresh = query_ensemble(ensemble, model.encoder, chosen, asked)
            surrogate.queried = surrogate.queried.extend(fresh)
        if surrogate.pseudo_labels is not None:
            surrogate.pseudo_labels.fit(surrogate.queried)
        left = 1.0 - turn / config.rounds
        set_rate(surrogate.optimizer, config.surrogate_rate * _falling(left, config.surrogate_rate_end))
        model.pair.train()
        for _ in range(config.surrogate_steps):
            surrogate.step()
        set_rate(generator.optimizer, config.generator_rate * _falling(left, config.generator_rate_end))
        losses = [float(generator.step()) for _ in range(config.generator_steps)]
        report("distill", turn + 1, config.rounds, losses[-1] if losses else 0.0)
    model.pair.eval()
    if config.rounds and config.generator_steps:
        generator.average.apply()


def _falling(left: float, end: float) -> float:
    """The share of a rate that falls in a line to its share `end`, when so much of the rounds is left"""
    return end + (1 - end) * left


def _by_uncertainty(model: RecourseModel, points: Encoded, random: np.random.Generator) -> NDArray[np.intp]:
    """points (n, D) -> their positions (n,), drawn without replacement with chances in proportion to the uncertainty

    Uncertainty is the Gini impurity of the surrogate's votes; the draw is the exponential race of weighted sampling.
    """
    uncertainty = vote_uncertainty(model, points) + model.config.acquisition.least_uncertainty
    return np.argsort(random.exponential(size=len(points)) / uncertainty, kind="stable")


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
    """What the search would return at cost weights (n,): candidates (n, 1)"""
    penalty, rounds = model.config.search.local.change_penalty, model.config.acquisition.polish_rounds
    best = objective(candidates, feasible, cost_weights, penalty).argmax(axis=1)[:, None]
    return polish(model, candidates.take(best), target, feasible, cost_weights, rounds)
