"""Practice: what the search would choose by now is voted on, and taught as a run taken up again would teach it."""

from dataclasses import replace

import numpy as np
import torch

from models.config import Config
from models.training.acquisition import RECORDS, practise
from models.training.pseudo_labels import FreeLessons, buy
from models.training.surrogate_trainer import SurrogateTrainer, TrainingData
from models.training.teachers import fit_plausible
from tests.models.tiny import TINY, Scorecards, Task, random_model

HEADS, GIVEN = 3, 2500
CONFIG: Config = replace(TINY, surrogate=replace(TINY.surrogate, heads=HEADS))


def test_practice_teaches_the_bits_that_a_run_from_a_checkpoint_would(blobs_task: Task) -> None:
    encoder, training, random = blobs_task.encoder, blobs_task.training, np.random.default_rng(0)
    model, cpu = random_model(encoder, CONFIG), torch.device("cpu")
    points = torch.from_numpy(encoder.encode(training.records).astype(np.float32))
    labels = torch.from_numpy(training.labels)
    bought = buy(Scorecards(encoder), encoder, training.records[:100], labels[:100], HEADS)

    def lessons() -> FreeLessons:
        plausible = fit_plausible(points.numpy().astype(np.float64), training.labels, 4, seed=0)
        return FreeLessons(plausible, encoder.width, HEADS, cpu)

    surrogate = SurrogateTrainer(model.pair, TrainingData(points, labels, 4.0), CONFIG, torch.Generator())
    surrogate.free = free = lessons()
    free.add(torch.from_numpy(random.normal(size=(GIVEN, encoder.width)).astype(np.float32)))
    free.weigh(bought)
    assert free.residuals is not None
    practise(model, training.records, training.labels, surrogate, random)
    count = min(RECORDS, len(training.records))
    assert free.practice.tolist() == list(range(GIVEN, GIVEN + count))
    again = lessons()
    again.restore(free.points, free.votes, free.practice, bought)
    assert torch.equal(again.taught, free.taught)
