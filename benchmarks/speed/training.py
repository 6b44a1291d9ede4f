"""How long `fast` and `paper` train until their answers are equally valid, on one data set and in one run.

Seconds are those of the processor: one thread works, so on an idle core the clock would say the same, and on a busy one
what other processes take does not count.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time

import numpy as np
import torch

from benchmarks.speed.report import Race, Run, best_of, reaches
from benchmarks.store import write_whole
from models.config import Config, SearchConfig, fast
from models.data.records import check_record
from models.datasets.dataset import Splits
from models.ensemble.meter import QueryMeter
from models.ensemble.protocol import Ensemble
from models.ensemble.votes import votes
from models.evaluation.evaluation import Cases
from models.model import Calibration, RecourseModel
from models.networks.density import make_proxy, noise_bound
from models.networks.surrogate import SurrogatePair
from models.networks.velocity import Velocity, make_velocity
from models.search.search import explain
from models.space.encoding import cost
from models.space.snapping import Snapper
from models.storage.artifact import load_model, save_model
from models.training.acquisition import Acquisition, distill
from models.training.generator_trainer import GeneratorTrainer, training_boxes
from models.training.schedule import set_rate, silent, warm_cosine
from models.training.surrogate_trainer import SurrogateTrainer, TrainingData, fit_calibration
from models.training.train import train

CHECKPOINTS = (0.1, 0.3, 0.6)
"""Where in its joint training `paper` is also measured, without distillation."""
TEST_TOLERANCE = 1e-4
DIAL_SHARE = 0.97
"""The dial of `fast` aims a little below the cost of `paper`: the test split may cost more than the validation."""


@dataclass(frozen=True, eq=False)
class Judge:
    """Search without a query, judged by the ensemble."""

    ensemble: Ensemble
    cases: Cases

    def measure(self, model: RecourseModel, config: SearchConfig) -> tuple[float, float]:
        """-> validity, mean cost"""
        encoder, answers = model.encoder, self.cases.records.copy()
        for row, found in enumerate(explain(model, self.cases.records, self.cases.target, None, config)):
            if found.counterfactuals:
                answers[row] = check_record(encoder.schema, found.counterfactuals[0].record)[0]
        agreed = votes(self.ensemble.predict_proba(answers), self.cases.target)
        paid = cost(encoder.encode(answers), encoder.encode(self.cases.records))
        return float(agreed.mean()), float(paid.mean())


class PaperRun:
    """The paper's training, put together so that it can be looked at on its way, which is not timed, and stopped."""

    def __init__(self, study: Splits, ensemble: Ensemble, config: Config, seed: int) -> None:
        encoder, device = study.encoder, torch.device(config.device)
        self.study, self.ensemble, self.config, self.seed = study, ensemble, config, seed
        random = torch.Generator(device=device).manual_seed(seed)
        classes = len(encoder.schema.classes)
        points = torch.from_numpy(encoder.encode(study.training.records).astype(np.float32))
        data = TrainingData(points, torch.from_numpy(study.training.labels), noise_bound(points, config.noise))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.pair = SurrogatePair(encoder.width, classes, config.surrogate)
            self.velocity = make_velocity(encoder.width, classes, config.flow)
        self.surrogate = SurrogateTrainer(self.pair, data, config, random)
        boxes = training_boxes(encoder, study.training.records, frozenset(encoder.schema.names), device)
        score = make_proxy(config.loss.proxy, points, data.bound, config.noise, random)
        snapper = Snapper(encoder, device)
        self.generator = GeneratorTrainer(self.velocity, self.pair, data, boxes, snapper, score, config, random)
        self.steps, self.rounds, self.seconds = 0, 0, 0.0

    def advance(self, until: int) -> None:
        """Joint steps until there were so many."""
        settings, total = self.config.generator, self.generator.steps
        while self.steps < until:
            started = process_time()
            share = warm_cosine(self.steps, total, settings.warmup, settings.final_rate)
            set_rate(self.generator.optimizer, settings.learning_rate * share)
            self.pair.train()
            self.surrogate.step()
            self.generator.step()
            self.steps += 1
            self.seconds += process_time() - started

    def distil(self) -> None:
        """All rounds of distillation."""
        started = process_time()
        self.generator.average.apply()
        meter, random = QueryMeter(self.ensemble, self.config.queries), np.random.default_rng(self.seed)
        model = self._model(self.pair, self.velocity)
        distill(Acquisition(model, self.study.training, self.surrogate, random), meter, self.generator, silent)
        self.rounds = self.config.distill.rounds
        self.seconds += process_time() - started

    def look(self) -> RecourseModel:
        """The model as it is, with averaged weights and the calibration that the queried labels allow."""
        pair, generator = deepcopy(self.pair).eval(), self.generator
        live = [parameter.detach().clone() for parameter in self.velocity.parameters()]
        generator.average.apply()
        velocity = deepcopy(self.velocity)
        with torch.no_grad():
            for parameter, own in zip(self.velocity.parameters(), live, strict=True):
                parameter.copy_(own)
        classes = len(self.study.encoder.schema.classes)
        calibration = fit_calibration(pair, self.surrogate.queried, classes)
        return replace(self._model(pair, velocity), calibration=calibration)

    def _model(self, pair: SurrogatePair, velocity: Velocity) -> RecourseModel:
        encoder = self.study.encoder
        flow = replace(self.config.flow, tolerance=TEST_TOLERANCE, adjoint=False)
        names = frozenset(encoder.schema.names)
        calibration = Calibration.identity(len(encoder.schema.classes))
        return RecourseModel(encoder, replace(self.config, flow=flow), pair, velocity, calibration, names, self.seed)


@dataclass(frozen=True, eq=False)
class PaperOutcome:
    """`paper` at its checkpoints, the seconds that its joint training had, and the model at its end."""

    runs: tuple[Run, ...]
    generator_seconds: float
    model: RecourseModel


def shortened(config: Config, share: float) -> Config:
    """The paper's schedule with a share of its epochs: warm-up and decay end as they should, distillation is whole"""
    epochs = max(1, round(share * (config.generator.epochs or 0)))
    return replace(config, generator=replace(config.generator, epochs=epochs))


def run_paper(study: Splits, judge: Judge, config: Config, share: float, seed: int) -> PaperOutcome:
    """`paper` with a share of its epochs"""
    paper, runs = PaperRun(study, judge.ensemble, shortened(config, share), seed), list[Run]()
    steps = paper.generator.steps
    schedule = round(steps * (config.generator.epochs or 0) / (paper.config.generator.epochs or 1))

    def note() -> RecourseModel:
        model = paper.look()
        validity, paid = judge.measure(model, SearchConfig(seed=seed))
        effort = paper.steps / schedule
        runs.append(Run("paper", effort, paper.steps, schedule, paper.rounds, paper.seconds, validity, paid))
        return model

    for part in CHECKPOINTS:
        paper.advance(math.ceil(part * steps))
        note()
    paper.advance(steps)
    joint = paper.seconds
    paper.distil()
    model = note()
    return PaperOutcome(tuple(runs), joint, model)


def kept_paper(folder: Path, dataset: str, run: Callable[[], PaperOutcome], share: float) -> PaperOutcome:
    """What `run` gives, or gave before: the long part of the benchmark is not run twice"""
    place = folder / f"paper-{dataset}-{share:g}"
    figures = folder / f"{place.name}.json"
    if figures.exists():
        document = json.loads(figures.read_text())
        runs = tuple(Run(**each) for each in document["runs"])
        return PaperOutcome(runs, float(document["generator_seconds"]), load_model(place))
    outcome = run()
    folder.mkdir(parents=True, exist_ok=True)
    save_model(outcome.model, place)
    document = {"runs": [asdict(each) for each in outcome.runs], "generator_seconds": outcome.generator_seconds}
    write_whole(figures, json.dumps(document))
    return outcome


def _cost_weight_for(model: RecourseModel, cost: float) -> float:
    """The cost weight at which the validation split's mean cost is `cost`, interpolated along the frontier"""
    ordered = sorted(model.frontier, key=lambda point: point.cost)
    logs = [np.log(point.cost_weight) for point in ordered]
    return float(np.exp(np.interp(cost, [point.cost for point in ordered], logs)))


def run_fast(study: Splits, judge: Judge, wanted: Run, efforts: Sequence[float], seed: int) -> Iterator[Run]:
    """`fast` at each effort, its dial set on the validation split to the cost of `wanted`, until one reaches it"""
    for effort in efforts:
        config = fast().scaled(effort)
        started = process_time()
        model = train(study, judge.ensemble, config, seed=seed)
        seconds = process_time() - started
        search = SearchConfig(
            cost_weight=_cost_weight_for(model, DIAL_SHARE * wanted.cost), min_expected_agreement=0.0, seed=seed
        )
        validity, paid = judge.measure(model, search)
        steps, schedule = config.generator.steps, fast().generator.steps
        run = Run("fast", effort, steps, schedule, config.distill.rounds, seconds, validity, paid)
        yield run
        if reaches(run, wanted):
            return


def race(dataset: str, study: Splits, judge: Judge, paper: PaperOutcome, efforts: Sequence[float], seed: int) -> Race:
    """`fast` against the best that `paper` came to"""
    runs = tuple(run_fast(study, judge, best_of(paper.runs), efforts, seed))
    return Race(dataset, paper.runs, runs, paper.generator_seconds)
