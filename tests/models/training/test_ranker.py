"""The scout: which ends of paths it lets pass, and how well it follows the pair."""

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.config import AnchorConfig, RankerConfig
from models.model import Calibration, RecourseModel
from models.networks.ranker import CandidateRanker, top_candidates
from models.search.candidates import decode_points, endpoints, generate, score_endpoints
from models.search.local_search import objective
from models.search.scoring import expected_shares, score_points
from models.space.snapping import Snapper
from models.training import ranker_trainer
from models.training.ranker_trainer import ranking_regret, train_ranker, with_ranker
from tests.models.tiny import TINY, Task, feasible_by_schema, other_class, random_model

CONFIG, ANCHORS = RankerConfig(), AnchorConfig()
BEST, SUREST = CONFIG.by_objective, CONFIG.by_agreement
STEEP = 2.0
AS_IT_IS = cast(Snapper, SimpleNamespace(snap=torch.clone))
"""A grid so fine that it moves nothing."""


@pytest.fixture(scope="module")
def slope() -> CandidateRanker:
    """Expects class 0 of the number z with the share sigmoid(STEEP * z)."""
    ranker = CandidateRanker(1, 2, 8)
    with torch.no_grad():
        for parameter in ranker.parameters():
            parameter.zero_()
        ranker.first.weight[:2, 0] = torch.tensor([1.0, -1.0])
        ranker.second.weight[0, 0] = ranker.second.weight[1, 1] = 1.0
        ranker.out.weight[0, :2] = torch.tensor([STEEP, -STEEP])
    return ranker


@settings(max_examples=50)
@given(seed=st.integers(0, 10_000), count=st.integers(BEST + SUREST + 1, 40), cost_weight=st.floats(0.01, 2.0))
def test_the_best_at_the_price_and_the_surest_pass(
    slope: CandidateRanker, seed: int, count: int, cost_weight: float
) -> None:
    ends = np.random.default_rng(seed).normal(0.0, 2.0, (3, count, 1)).astype(np.float32)
    origin, target = np.array([[0.0], [1.0], [-1.0]]), np.array([0, 1, 0])
    chosen = top_candidates(slope, AS_IT_IS, ends, origin, target, np.full(3, cost_weight), CONFIG)
    assert chosen.shape == (3, BEST + SUREST)
    share = 1.0 / (1.0 + np.exp(-STEEP * ends[..., 0] * np.where(target == 0, 1.0, -1.0)[:, None]))
    value = share - cost_weight * np.abs(ends[..., 0] - origin)
    for row in range(3):
        least = np.sort(value[row])[-BEST]
        assert (value[row, chosen[row, :BEST]] >= least - 1e-5).all()
        assert len(set(chosen[row, :BEST])) == BEST
        assert (share[row, chosen[row, BEST:]] >= np.sort(share[row])[-SUREST] - 1e-5).all()


def test_ways_are_measured_to_what_the_ends_decode_to(slope: CandidateRanker) -> None:
    """Of ends that decode to the same record none is cheaper; here all decode to 0 but the first two."""
    grid = cast(Snapper, SimpleNamespace(snap=lambda points: torch.where(points > 3, points, 0.0)))
    ends = np.linspace(2.0, 0.1, 20, dtype=np.float32)[None, :, None]
    ends[0, :2, 0] = 5.0, 4.0
    chosen = top_candidates(slope, grid, ends, np.zeros((1, 1)), np.array([0]), np.array([1.0]), CONFIG)
    assert chosen[0].tolist() == [2, 3, 4, 5, 0]


def test_where_there_are_few_all_pass(slope: CandidateRanker) -> None:
    ends = np.zeros((2, BEST + SUREST, 1), dtype=np.float32)
    chosen = top_candidates(slope, AS_IT_IS, ends, np.zeros((2, 1)), np.zeros(2, dtype=np.int64), np.ones(2), CONFIG)
    assert chosen.tolist() == [list(range(BEST + SUREST))] * 2


def test_a_record_alone_is_scouted_as_among_500(loans_task: Task) -> None:
    model = random_model(loans_task.encoder, replace(TINY, ranker=RankerConfig()))
    assert model.ranker is not None
    random = np.random.default_rng(0)
    width = loans_task.encoder.width
    ends = random.normal(size=(500, 50, width)).astype(np.float32)
    origin, target = random.normal(size=(500, width)), random.integers(2, size=500)
    cost_weight = random.uniform(0.01, 1.0, size=500)
    together = top_candidates(model.ranker, model.snapper, ends, origin, target, cost_weight, CONFIG)
    for row in (0, 1, 20, 21, 255, 499):
        one = slice(row, row + 1)
        alone = top_candidates(
            model.ranker, model.snapper, ends[one], origin[one], target[one], cost_weight[one], CONFIG
        )
        np.testing.assert_array_equal(alone[0], together[row])


@pytest.fixture(scope="module")
def ranked_model(loans_task: Task, tiny_model: RecourseModel) -> RecourseModel:
    """The tiny model, which hardly knows anything, made to say it loudly; and a scout that listened for a while."""
    config = replace(tiny_model.config, ranker=RankerConfig(width=32, steps=400))
    model = replace(tiny_model, config=config, calibration=Calibration(5.0, np.array([0.0, 0.4])))
    training = loans_task.training
    return replace(model, ranker=train_ranker(model, training, seed=0))


def test_it_follows_the_pair(loans_task: Task, ranked_model: RecourseModel) -> None:
    """Of where the paths of records end that it has not seen, it knows most of what the pair says."""
    assert ranked_model.ranker is not None
    records, target = loans_task.test.records, other_class(loans_task.test.labels, 2)
    feasible = feasible_by_schema(ranked_model.encoder, records)
    ends = endpoints(ranked_model, target, feasible, 8, seed=3)
    points = ranked_model.encoder.encode(
        decode_points(ranked_model.encoder, ends, feasible).reshape(-1, records.shape[1])
    )
    with torch.inference_mode():
        said = torch.softmax(ranked_model.ranker(torch.from_numpy(points.astype(np.float32))), dim=1).numpy()
    truth = expected_shares(ranked_model, points)
    assert truth.std(axis=0).min() > 0.04
    assert np.corrcoef(said[:, 0], truth[:, 0])[0, 1] > 0.8


def test_little_is_lost_by_what_it_leaves_out(loans_task: Task, ranked_model: RecourseModel) -> None:
    records, target = loans_task.test.records, other_class(loans_task.test.labels, 2)
    feasible = feasible_by_schema(ranked_model.encoder, records)
    points = endpoints(ranked_model, target, feasible, 30, seed=0)
    cost_weight = np.full(len(target), 0.1)
    every, few = (score_endpoints(ranked_model, points, target, feasible, given) for given in (None, cost_weight))
    assert every.cost.shape[1] == 30 + ANCHORS.nearest * len(ANCHORS.fractions) > few.cost.shape[1] == BEST + SUREST
    best, worst = (
        pick(objective(every, feasible, cost_weight, 0.004), axis=1).mean() for pick in (np.max, np.min)
    )
    kept = objective(few, feasible, cost_weight, 0.004).max(axis=1).mean()
    assert best - kept < 0.05 * (best - worst)


def test_a_scout_that_hides_the_best_is_not_kept(
    loans_task: Task, ranked_model: RecourseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned, checked = loans_task.training, loans_task.validation
    kept = with_ranker(ranked_model, learned, checked, seed=0)
    assert kept.ranker is not None and kept.config == ranked_model.config
    assert 0 <= ranking_regret(ranked_model, checked, seed=0) <= RankerConfig().most_regret
    assert ranked_model.ranker is not None
    liar = copy.deepcopy(ranked_model.ranker)
    with torch.no_grad():
        liar.out.weight.neg_()
    assert ranking_regret(replace(ranked_model, ranker=liar), checked, seed=0) > RankerConfig().most_regret
    monkeypatch.setattr(ranker_trainer, "train_ranker", lambda *_: liar)
    refused = with_ranker(ranked_model, learned, checked, seed=0)
    assert refused.ranker is None
    assert refused.config.ranker.steps == 0, "a saved model then waits for no scout"


def test_what_is_reported_comes_from_the_pair(loans_task: Task, ranked_model: RecourseModel) -> None:
    records, target = loans_task.test.records[:9], other_class(loans_task.test.labels[:9], 2)
    feasible = feasible_by_schema(ranked_model.encoder, records)
    found = generate(ranked_model, target, feasible, 30, seed=0, cost_weight=np.full(9, 0.2))
    for position in range(found.cost.shape[1]):
        scores = score_points(ranked_model, found.points[:, position], target)
        np.testing.assert_array_equal(found.agreement[:, position], scores.agreement)
        np.testing.assert_array_equal(found.density[:, position], scores.density)


def test_the_seed_decides_and_the_settings_may_want_none(loans_task: Task, tiny_model: RecourseModel) -> None:
    training = loans_task.training
    first, again, other = (train_ranker(tiny_model, training, seed) for seed in (1, 1, 2))
    assert first is not None and again is not None and other is not None
    assert torch.equal(first.out.weight, again.out.weight) and not torch.equal(first.out.weight, other.out.weight)
    without = replace(tiny_model, config=replace(tiny_model.config, ranker=RankerConfig(steps=0)))
    assert train_ranker(without, training, seed=0) is None
