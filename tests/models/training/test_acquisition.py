"""Dataset aggregation: what the search answers by now is labelled, with the bits of a run that was taken up again."""

from dataclasses import replace

import numpy as np
import torch

from models.config import Config
from models.training.acquisition import Acquisition
from models.training.pseudo_labels import PseudoLabels, query_ensemble
from models.training.surrogate_trainer import SurrogateTrainer, TrainingData
from models.training.teachers import fit_teachers
from tests.models.tiny import TINY, Scorecards, Task, random_model

HEADS, GIVEN = 3, 2500
CONFIG: Config = replace(TINY, surrogate=replace(TINY.surrogate, heads=HEADS))


def test_aggregation_gives_the_labels_that_a_run_from_a_checkpoint_would(blobs_task: Task) -> None:
    encoder, training, random = blobs_task.encoder, blobs_task.training, np.random.default_rng(0)
    model, cpu = random_model(encoder, CONFIG), torch.device("cpu")
    points = torch.from_numpy(encoder.encode(training.records).astype(np.float32))
    labels = torch.from_numpy(training.labels)
    queried = query_ensemble(Scorecards(encoder), encoder, training.records[:100], labels[:100], HEADS)

    def fresh() -> PseudoLabels:
        teachers = fit_teachers(points.numpy().astype(np.float64), training.labels, 4, seed=0)
        return PseudoLabels(teachers, encoder.width, HEADS, cpu)

    surrogate = SurrogateTrainer(model.pair, TrainingData(points, labels, 4.0), CONFIG, torch.Generator())
    surrogate.pseudo_labels = pseudo = fresh()
    pseudo.add(torch.from_numpy(random.normal(size=(GIVEN, encoder.width)).astype(np.float32)))
    pseudo.fit(queried)
    assert pseudo.residuals is not None
    Acquisition(model, training, surrogate, random).aggregate()
    count = min(CONFIG.acquisition.records, len(training.records))
    assert pseudo.on_policy.tolist() == list(range(GIVEN, GIVEN + count))
    again = fresh()
    again.restore(pseudo.points, pseudo.votes, pseudo.on_policy, queried)
    assert torch.equal(again.soft_labels, pseudo.soft_labels)
