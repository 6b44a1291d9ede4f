"""Training from top to bottom (docs/METHOD.md, sections 2 to 4; paper, "Proposed Method" and Algorithm 1).

1. The surrogate learns classes and density from the labelled data, and votes from the jury's pseudo-labels.
2. The generator learns to move records into the target class against the surrogate.
3. Distillation: rounds in which the ensemble is queried, the surrogate learns the answers, the generator follows.
4. Calibration of the votes; anchors; the frontier.
"""

from dataclasses import replace

import numpy as np
import torch

from ..config import Config
from ..datasets.dataset import Labelled, Splits
from ..device import find_device
from ..ensemble.meter import QueryMeter
from ..ensemble.protocol import Ensemble
from ..errors import DataError
from ..model import Calibration, RecourseModel
from ..networks.density import make_proxy, noise_bound
from ..networks.surrogate import SurrogatePair
from ..networks.velocity import make_velocity
from ..search.frontier import measure_frontier
from ..search.scoring import measure_density_quantiles
from ..space.anchors import Anchors, choose_anchors
from ..space.encoding import Encoder
from ..space.snapping import Snapper
from .acquisition import Acquisition, distill
from .checkpoint import Checkpoints, all_steps
from .feature_selection import select_features
from .generator_trainer import GeneratorTrainer, training_boxes
from .jury import fit_jury
from .pseudo_labels import PseudoLabels, mix_points
from .run_state import RunState, selected_features
from .schedule import Report, silent
from .surrogate_trainer import SurrogateTrainer, TrainingData, fit_calibration


def train(
    splits: Splits,
    ensemble: Ensemble,
    config: Config,
    query_limit: int | None = None,
    seed: int = 0,
    report: Report = silent,
    checkpoints: Checkpoints | None = None,
) -> RecourseModel:
    """The whole method: a model that explains what `ensemble` decides.

    splits       the training split is learned from; on the validation split only the frontier and the density quantiles
                 are measured
    query_limit  the most records that are put to the ensemble; by default, what distillation plans
    report       is told every few steps how far the run is
    checkpoints  keeps the state now and then, or goes on from a kept one, with the same bits at the end

    The same seed gives the same model. DataError for a split that lacks a class or is empty.
    """
    encoder, training, validation = splits.encoder, splits.training, splits.validation
    classes, device = len(encoder.schema.classes), find_device(config.device)
    if len(np.unique(training.labels)) < classes:
        raise DataError(f"The training split lacks one of the classes {', '.join(encoder.schema.classes)}.")
    if not len(validation):
        raise DataError("The validation split has no record to measure the frontier on; give at least one.")
    meter = QueryMeter(ensemble, config.queries if query_limit is None else query_limit)
    fitted = config.surrogate.fitted(len(training))
    config = replace(config.limited_to(meter.limit), surrogate=fitted)
    random = torch.Generator(device=device).manual_seed(seed)
    resume = None if checkpoints is None else checkpoints.resume
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        data = _training_data(encoder, training, config, device)
        generated = select_features(encoder, data, config, seed) if resume is None else selected_features(resume)
        snapper = Snapper(encoder, device)
        pair = SurrogatePair(encoder.width, classes, config.surrogate).to(device)
        velocity = make_velocity(encoder.width, classes, config.flow).to(device)
    surrogate = SurrogateTrainer(pair, data, config, random)
    if config.surrogate.jury:
        surrogate.pseudo_labels = _pseudo_labels(encoder, training, data, config, seed)
        if resume is None:
            between = mix_points(data.points, data.labels, snapper, config.pseudo_labels, random)
            surrogate.pseudo_labels.add(between)
    state = RunState(surrogate, velocity, meter, np.random.default_rng(seed), generated, config, seed)
    steps = all_steps if checkpoints is None else checkpoints.steps(state.snapshot, state.restore)
    surrogate.pretrain(report, steps)
    boxes = training_boxes(encoder, training.records, generated, device)
    score = make_proxy(config.loss.proxy, data.points, data.bound, config.noise, state.proxy_random(resume))
    state.generator = generator = GeneratorTrainer(velocity, pair, data, boxes, snapper, score, config, random)
    generator.train(surrogate, report, steps)
    model = RecourseModel(encoder, config, pair, velocity, Calibration.identity(classes), generated, seed)
    acquisition = Acquisition(model, training, surrogate, state.choices)
    distill(acquisition, meter, generator, report, steps)
    pair.eval()
    anchors = _anchors(model, surrogate, training, seed)
    calibration = fit_calibration(pair, surrogate.queried, classes, config.surrogate.calibration_prior)
    model = replace(model, calibration=calibration, queries=meter.spent, anchors=anchors, config=_served(config))
    quantiles = measure_density_quantiles(model, validation.records, validation.labels)
    return replace(model, frontier=measure_frontier(model, validation, seed), density_quantiles=quantiles)


def _served(config: Config) -> Config:
    """The configuration that the model is served with: a fixed grid, so that no answer depends on its batch."""
    if config.flow.solver != "dopri5":
        return config
    return replace(config, flow=replace(config.flow, solver="rk4", steps=max(config.flow.steps, 8), adjoint=False))


def _anchors(model: RecourseModel, surrogate: SurrogateTrainer, training: Labelled, seed: int) -> Anchors:
    encoder, pseudo = model.encoder, surrogate.pseudo_labels
    if pseudo is None:
        return Anchors.none(encoder.width)
    flows = np.array([name in model.generated_features for name in encoder.schema.names])[encoder.feature_of_column]
    points, random = encoder.encode(training.records), np.random.default_rng(seed)
    pool, shares = pseudo.points.cpu().numpy().astype(np.float64), pseudo.soft_labels.cpu().numpy()
    return choose_anchors(pool, shares, points, training.labels, flows, random, model.config.search.anchors)


def _training_data(encoder: Encoder, training: Labelled, config: Config, device: torch.device) -> TrainingData:
    points = torch.from_numpy(encoder.encode(training.records).astype(np.float32)).to(device)
    labels = torch.from_numpy(training.labels).to(device)
    return TrainingData(points, labels, noise_bound(points, config.noise))


def _pseudo_labels(encoder: Encoder, training: Labelled, data: TrainingData, config: Config, seed: int) -> PseudoLabels:
    """The jury, with nothing to label yet."""
    classes = len(encoder.schema.classes)
    jury = fit_jury(encoder.encode(training.records), training.labels, classes, seed, config.jury)
    return PseudoLabels(jury, encoder.width, classes, data.points.device, config.residuals)
