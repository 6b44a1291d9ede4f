"""The catalogue of moves: what may not change has none, and leaving it out changes no answer."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.config import LocalSearchConfig
from models.model import RecourseModel
from models.search.candidates import Candidates
from models.search.local_search import best_of_each_feature, moves_of, polish
from models.search.moves import MoveContext, effects, move_set_of, proposals
from models.space.codings import Encoding
from models.space.encoding import Encoder
from tests.models.schemas import encodings, record_matrices, schemas
from tests.models.search.test_local_search import start_of
from tests.models.tiny import Task, feasible_by_schema, other_class


def test_only_what_may_change_has_moves(loans_task: Task) -> None:
    encoder, names = loans_task.encoder, loans_task.encoder.schema.names
    movable = np.array([name in {"savings", "purpose"} for name in names])
    moves = move_set_of(encoder, movable, LocalSearchConfig())
    assert set(moves.feature) == set(moves.features) == {names.index("savings"), names.index("purpose")}
    assert moves.of.shape[0] == 2
    for position, feature in enumerate(moves.features):
        assert (moves.feature[moves.of[position]] == feature).all()


@settings(max_examples=60)
@given(st.data(), encodings)
def test_effects_are_those_of_the_encoded_records(data: st.DataObject, encoding: Encoding) -> None:
    """For every category and every way back, also from and to a missing value."""
    schema = data.draw(schemas())
    origin, drawn = data.draw(record_matrices(schema)), data.draw(record_matrices(schema))
    encoder = Encoder.fit(schema, origin, encoding)
    feasible = feasible_by_schema(encoder, origin)
    context = MoveContext.of(encoder, feasible, LocalSearchConfig())
    moves = context.moves
    assume(len(moves.feature))
    current = np.where(feasible.movable, drawn[np.arange(len(origin)) % len(drawn)], origin)
    at = encoder.encode(current)
    gradient = np.random.default_rng(data.draw(st.integers(0, 999))).normal(size=at.shape)
    here = current[:, moves.feature]
    values = proposals(encoder, context, here)
    shift, squared = effects(encoder, context, here, values, at, gradient)
    home = encoder.encode(origin)
    for move, feature in enumerate(moves.feature):
        after = current.copy()
        after[:, feature] = values[:, move]
        points = encoder.encode(after)
        np.testing.assert_allclose(shift[:, move], ((points - at) * gradient).sum(axis=1), atol=1e-9)
        farther = ((points - home) ** 2).sum(axis=1) - ((at - home) ** 2).sum(axis=1)
        np.testing.assert_allclose(squared[:, move], farther, atol=1e-7)


def test_nothing_may_change(loans_task: Task, tiny_model: RecourseModel) -> None:
    feasible = feasible_by_schema(tiny_model.encoder, loans_task.test.records[:3])
    frozen = feasible.freeze(np.ones(feasible.movable.shape, dtype=np.bool_))
    assert not len(MoveContext.of(tiny_model.encoder, frozen, LocalSearchConfig()).moves.feature)
    target = other_class(loans_task.test.labels[:3], 2)
    start = start_of(tiny_model, target, frozen)
    polished = polish(tiny_model, start, target, frozen, np.full(3, 0.1), 4)
    np.testing.assert_array_equal(polished.records[:, 0], frozen.origin)
    assert best_of_each_feature(tiny_model, polished, target, frozen).cost.shape == (3, 0)
    assert moves_of(tiny_model, polished, target, frozen).cost.shape == (3, 0)


def test_a_frozen_record_is_polished_alone_as_beside_free_ones(loans_task: Task, tiny_model: RecourseModel) -> None:
    """Alone its catalogue is short; beside the others it has the moves of all."""
    count = 24
    feasible = feasible_by_schema(tiny_model.encoder, loans_task.test.records[:count])
    mask = np.zeros(feasible.movable.shape, dtype=np.bool_)
    mask[::2, ::2] = feasible.own_fits()[::2, ::2]
    mixed = feasible.freeze(mask)
    target, cost_weight = other_class(loans_task.test.labels[:count], 2), np.full(count, 0.1)
    start = start_of(tiny_model, target, mixed)
    together = polish(tiny_model, start, target, mixed, cost_weight, 4)
    assert (together.records != start.records).any()
    for row in range(count):
        rows = np.array([row])
        part = start.take_rows(rows)
        alone: Candidates = polish(tiny_model, part, target[rows], mixed.rows(rows), cost_weight[rows], 4)
        np.testing.assert_array_equal(alone.records[0], together.records[row])
