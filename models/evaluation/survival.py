"""Survival: the share of equally good models that nobody asked and that accept an answer (METHOD.md, section 0).

The lender retrains, the applicant comes back later, and the next model decides. So answers are put to groups of other
models, none of which is ever shown to the engine:

a  other seeds
b  80% of the training rows, drawn without repeats
c  training and validation rows
d  other families: a spline GAM and logistic regression; in benchmarks/survival also boosting by leaves and TabM
e  time: models of later rows, where a data set has them

A model that votes like an asked one on more than 99.5% of the test rows is dropped, since it would count a vote twice;
so is one that is not equally good: its accuracy has to lie within .03 of those of the asked models.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from threadpoolctl import threadpool_limits

from ..arrays import Floats, Records, Targets
from ..datasets.dataset import Labelled, Splits
from ..ensemble.protocol import Ensemble
from ..ensemble.votes import votes
from ..space.encoding import Encoder

ENSEMBLES = 3
"""Ensembles in each of the groups a, b, c and e."""
ROWS_OF_B = 0.8
ALIKE = 0.995
EQUALLY_GOOD = 0.03
SEEDS_APART = 1000
"""Between the seed of the asked models and those of the others."""
SPLINES = 6

Fit: TypeAlias = Callable[[Labelled, int], Ensemble]
"""Training rows and a seed -> an ensemble of the same recipes as the asked one"""


Families: TypeAlias = Callable[[int], dict[str, ClassifierMixin]]
"""A seed -> a classifier of each family of group d, by its name, not fitted yet"""


@dataclass(frozen=True, eq=False)
class Group:
    """Models that nobody asked; `kept` (m,) says which count, `fell_out` why the others do not."""

    name: str
    ensembles: tuple[Ensemble, ...]
    kept: NDArray[np.bool_]
    fell_out: tuple[str, ...]

    @property
    def size(self) -> int:
        return int(self.kept.sum())

    def votes(self, records: Records, target: Targets) -> NDArray[np.bool_]:
        """records (n, F), target (n,) -> whether each model accepts (m, n)"""
        return np.concatenate([votes(each.predict_proba(records), target) for each in self.ensembles])[self.kept]


@dataclass(frozen=True, eq=False)
class OtherFamilies:
    """Fitted classifiers of other families behind one encoder; implements Ensemble."""

    encoder: Encoder
    models: Mapping[str, ClassifierMixin]

    @property
    def member_names(self) -> tuple[str, ...]:
        return tuple(self.models)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.encoder.schema.classes

    def predict_proba(self, records: Records) -> Floats:
        """records (n, F) -> (m, n, K)"""
        points = self.encoder.encode(records)
        with threadpool_limits(limits=1):
            return np.stack([model.predict_proba(points) for model in self.models.values()])


def plain_families(seed: int) -> dict[str, ClassifierMixin]:
    """The model families of scikit-learn; benchmarks/survival/families.py has more."""
    splines = SplineTransformer(SPLINES, knots="quantile", extrapolation="linear")
    return {
        "logistic": LogisticRegression(max_iter=2000),
        "spline-gam": make_pipeline(splines, LogisticRegression(C=0.3, max_iter=2000)),
    }


def other_models(
    splits: Splits,
    asked: Ensemble,
    fit: Fit,
    seed: int,
    later: Labelled | None = None,
    ensembles: int = ENSEMBLES,
    families: Families = plain_families,
) -> dict[str, Group]:
    """The groups a to d, and e where there are later rows; `seed` is that of the asked ensemble"""
    training, validation = splits.training, splits.validation
    more = Labelled(
        np.concatenate([training.records, validation.records]), np.concatenate([training.labels, validation.labels])
    )
    seeds = [SEEDS_APART * (number + 1) + seed for number in range(ensembles)]
    made: dict[str, list[Ensemble]] = {
        "a": [fit(training, each) for each in seeds],
        "b": [fit(share_of(training, ROWS_OF_B, each), each) for each in seeds],
        "c": [fit(more, each) for each in seeds],
        "d": [fit_families(splits.encoder, training, families(seed))],
    }
    groups = {name: equally_good(name, each, asked, splits.test, splits.test) for name, each in made.items()}
    if later is not None:
        held = share_of(later, 1 - ROWS_OF_B, seed)
        found = [fit(share_of(later, ROWS_OF_B, each), each) for each in seeds]
        groups["e"] = equally_good("e", found, asked, splits.test, held)
    return groups


def share_of(rows: Labelled, share: float, seed: int) -> Labelled:
    """A share of the rows of each class, drawn without repeats, in their order"""
    random = np.random.default_rng(seed)
    drawn = [random.permutation(np.flatnonzero(rows.labels == label)) for label in np.unique(rows.labels)]
    chosen = np.sort(np.concatenate([each[: max(3, round(share * len(each)))] for each in drawn]))
    return Labelled(rows.records[chosen], rows.labels[chosen])


def fit_families(encoder: Encoder, rows: Labelled, families: Mapping[str, ClassifierMixin]) -> OtherFamilies:
    """One model of each family of group d"""
    x, y = encoder.encode(rows.records), rows.labels
    with threadpool_limits(limits=1):
        return OtherFamilies(encoder, {name: model.fit(x, y) for name, model in families.items()})


def equally_good(name: str, ensembles: Sequence[Ensemble], asked: Ensemble, shared: Labelled, own: Labelled) -> Group:
    """The group without look-alikes (on the `shared` rows) and without models of another accuracy (on their `own`)"""
    asked_votes = asked.predict_proba(shared.records).argmax(axis=2)
    accuracies = (asked_votes == shared.labels).mean(axis=1)
    low, high = accuracies.min() - EQUALLY_GOOD, accuracies.max() + EQUALLY_GOOD
    kept: list[bool] = []
    fell_out: list[str] = []
    for number, ensemble in enumerate(ensembles):
        said = ensemble.predict_proba(shared.records).argmax(axis=2)
        right = (ensemble.predict_proba(own.records).argmax(axis=2) == own.labels).mean(axis=1)
        alike = (said[:, None] == asked_votes[None]).mean(axis=2).max(axis=1)
        for member, same, accuracy in zip(ensemble.member_names, alike, right, strict=True):
            reason = f"votes like an asked model on {same:.1%} of the rows" if same > ALIKE else ""
            reason = reason or ("" if low <= accuracy <= high else f"accuracy {accuracy:.3f}")
            kept.append(not reason)
            fell_out += [f"{name}{number} {member}: {reason}"] if reason else []
    return Group(name, tuple(ensembles), np.array(kept), tuple(fell_out))


def survival(
    groups: Mapping[str, Group], records: Records, target: Targets, answered: NDArray[np.bool_]
) -> dict[str, Floats]:
    """Answers (n, F) -> the share of each group that accepts each (n,), 0 where there is no answer

    A group of which no model is left has no figure.
    """
    return {
        name: np.where(answered, group.votes(records, target).mean(axis=0), 0.0)
        for name, group in groups.items()
        if group.size
    }
