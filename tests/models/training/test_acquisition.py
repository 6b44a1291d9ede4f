"""What a round of distillation labels: the answers of the search and ends of paths, with the bits of a resumed run."""

from dataclasses import replace

import numpy as np
import torch

from models.config import Config, ResidualConfig
from models.training.acquisition import Acquisition
from models.training.jury import fit_jury
from models.training.pseudo_labels import PseudoLabels, query_ensemble
from models.training.surrogate_trainer import SurrogateTrainer, TrainingData
from tests.models.tiny import TINY, Scorecards, Task, random_model

LABELLED = 5
CONFIG: Config = replace(TINY, acquisition=replace(TINY.acquisition, labelled=LABELLED))


def test_a_batch_labels_what_a_run_from_a_checkpoint_would(blobs_task: Task) -> None:
    encoder, training, random = blobs_task.encoder, blobs_task.training, np.random.default_rng(0)
    model, cpu = random_model(encoder, CONFIG), torch.device("cpu")
    points = torch.from_numpy(encoder.encode(training.records).astype(np.float32))
    labels = torch.from_numpy(training.labels)

    def fresh() -> PseudoLabels:
        jury = fit_jury(points.numpy().astype(np.float64), training.labels, 4, seed=0, config=CONFIG.jury)
        return PseudoLabels(jury, encoder.width, 4, cpu, ResidualConfig())

    surrogate = SurrogateTrainer(model.pair, TrainingData(points, labels, 4.0), CONFIG, torch.Generator())
    surrogate.pseudo_labels = pseudo = fresh()
    pseudo.add(points)
    records, target = Acquisition(model, training, surrogate, random).batch(20)
    assert len(records) == len(target) == 20 and len(np.unique(records, axis=0)) == 20
    answered = min(CONFIG.acquisition.records, len(training))
    assert len(pseudo.points) == len(points) + LABELLED * CONFIG.acquisition.candidates + answered
    queried = query_ensemble(Scorecards(encoder), encoder, records, torch.from_numpy(target))
    pseudo.fit(queried)
    assert pseudo.residuals is not None
    again = fresh()
    again.restore(pseudo.points, pseudo.votes, queried)
    assert torch.equal(again.soft_labels, pseudo.soft_labels)


def test_what_was_queried_is_not_queried_again(blobs_task: Task) -> None:
    encoder, training = blobs_task.encoder, blobs_task.training
    model = random_model(encoder, TINY)
    points = torch.from_numpy(encoder.encode(training.records).astype(np.float32))
    surrogate = SurrogateTrainer(
        model.pair, TrainingData(points, torch.from_numpy(training.labels), 4.0), TINY, torch.Generator()
    )
    first, target = Acquisition(model, training, surrogate, np.random.default_rng(0)).batch(20)
    surrogate.queried = query_ensemble(Scorecards(encoder), encoder, first, torch.from_numpy(target))
    second, _ = Acquisition(model, training, surrogate, np.random.default_rng(0)).batch(20)
    assert len(second) and not ({row.tobytes() for row in first} & {row.tobytes() for row in second})
