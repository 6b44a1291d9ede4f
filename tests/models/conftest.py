"""Tasks and trained models that the engine's tests share; each is made once a session."""

from dataclasses import replace

import pytest

from models.datasets.loans import loans
from models.datasets.synthetic import four_blobs
from models.model import RecourseModel
from models.training.train import train
from tests.models.tiny import TINY, Scorecards, Task, make_task


@pytest.fixture(scope="session")
def loans_task() -> Task:
    """Numbers, integers, categories (one of them nullable), one-way and protected features, missing values."""
    return make_task(loans(300, seed=3))


@pytest.fixture(scope="session")
def blobs_task() -> Task:
    """Two numbers, four classes."""
    return make_task(four_blobs(240))


@pytest.fixture(scope="session")
def tiny_model(loans_task: Task) -> RecourseModel:
    """Trained on the loans with every part: jury, votes, distillation, frontier."""
    config = replace(TINY, surrogate=replace(TINY.surrogate, jury=True, steps=200))
    task = loans_task
    return train(task, Scorecards(task.encoder), config, seed=6)
