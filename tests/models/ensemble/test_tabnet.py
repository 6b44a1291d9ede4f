"""What is TabNet's own: early stopping on rows that it does not learn from."""

import numpy as np

from models.ensemble.member import hold_out
from models.ensemble.tabnet import TabNetRecipe


def test_the_weights_of_the_best_epoch_are_kept() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(120, 6)), np.arange(120) % 2
    recipe = TabNetRecipe(updates=80, epochs=1, learning_rate=0.03, patience=1.0)
    member = recipe.fit(x, y, 2, seed=0)
    learn, validate = hold_out(y, recipe.held_out, seed=0)
    learned, held = (
        -np.log(member.predict_proba(x[rows])[np.arange(len(rows)), y[rows]]).mean() for rows in (learn, validate)
    )
    # There is nothing to learn: weights that fit the training rows fail on the held-out ones, and are not kept.
    assert held < 0.8
    assert learned > 0.4
