"""Whether a black box and the labels speak of the same classes, from a few labelled records that it was asked about.

A lender that lists its classes in the wrong order has models that are right about everything, and advice that harms. No
figure of agreement shows it: only the labels do. For each member:

    its AUC        one against the rest, the mean over the classes; with two classes the usual one
    its order      where another order of the classes fits so much better that chance cannot explain it
    what is told   no better than chance or than the base rate, the same answer always, 0 and 1 only, no answer

The test of the order shuffles the labels: the gain of the best order over the present one, against what shuffled labels
gain. With two classes it is the one-sided Mann-Whitney test. A model that is weak but sound gains less than shuffled
labels do, so it is refused less often than once in 1 / LEVEL, however rare a class is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from ..arrays import Targets
from ..ensemble.votes import answered

LEVEL = 0.001
SHUFFLES = 9_999


@dataclass(frozen=True, slots=True)
class MemberFit:
    """One member beside the labels; `order` names the class of each of its columns where that is clearly another.

    accuracy      the share of records that it gets right, each class weighted as the data have it
    best_auc      the AUC with the order of the classes that fits best
    """

    name: str
    auc: float
    best_auc: float
    accuracy: float
    constant: bool
    labels_only: bool
    order: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class LabelFit:
    """All members that answered beside `records` labels; naming `usual` always is right for the share `base_rate`."""

    records: int
    classes: tuple[str, ...]
    usual: str
    base_rate: float
    members: tuple[MemberFit, ...]
    silent: tuple[str, ...]

    @property
    def doubtful(self) -> bool:
        """Half of the members or more rank the labels the wrong way round, and yet it may be chance."""
        against = sum(member.auc < 0.5 for member in self.members)
        return 2 * against >= len(self.members) > 0 and all(member.order is None for member in self.members)

    def fault(self, ensemble: str) -> str | None:
        """What is wrong with the order of the classes, and what to do; None if it is right."""
        wrong = [member for member in self.members if member.order is not None]
        if not wrong:
            return None
        names, (order, *others) = ", ".join(member.name for member in wrong), {member.order for member in wrong}
        present, better = (", ".join(map("{:.2f}".format, found)) for found in zip(*map(_aucs, wrong), strict=True))
        fact = f"On {self.records} labelled records the AUC of {names} is {present}, where 0.5 is chance; it would be"
        # A member that says the same of everybody fits any order.
        if not others and order is not None and 2 * len(wrong) > sum(not member.constant for member in self.members):
            turned = [self.classes[code] for code in order]
            fix = f"register ensemble '{ensemble}' again, as a new version, in that order."
            return f"{fact} {better} with classes {turned}: {fix}"
        listed = ", ".join(self.classes)
        return f"{fact} {better} in another order of their outputs: have them answer {listed}, as '{ensemble}' says."

    def notices(self) -> list[str]:
        """Warnings about members that are not refused: a sentence each."""
        told = [f"'{name}' answered for none of the {self.records} labelled records." for name in self.silent]
        for one in self.members:
            if one.constant:
                told.append(f"'{one.name}' gives all of the {self.records} labelled records the same probabilities.")
                continue
            if one.labels_only:
                told.append(f"'{one.name}' answers 0 or 1, never a probability, so how sure it is cannot be learned.")
            if one.auc <= 0.5:
                fact = f"The AUC of '{one.name}' is {one.auc:.2f} on {self.records} labelled records, no better than"
                told.append(f"{fact} chance; see whether its classes are in the order {', '.join(self.classes)}.")
            if one.accuracy <= self.base_rate + 1e-9:
                fact = f"'{one.name}' is right for about {one.accuracy:.0%} of the records"
                told.append(f"{fact}, no more than naming '{self.usual}' each time is ({self.base_rate:.0%}).")
        return told

    def to_json(self) -> dict[str, object]:
        """As the metrics of a version keep it."""
        return {
            "records": self.records,
            "base_rate": self.base_rate,
            "auc": {member.name: member.auc for member in self.members},
            "accuracy": {member.name: member.accuracy for member in self.members},
            "notices": self.notices(),
        }


def draw_balanced(labels: Targets, count: int, seed: int) -> NDArray[np.intp]:
    """labels (n,) -> `count` rows at most, in ascending order, as many of each class as it has and the others leave

    An AUC is as well known as its rarer class: of 5% defaults a plain draw of 60 would have three.
    """
    drawn = np.random.default_rng(seed).permutation(len(labels))
    turn = np.empty(len(labels), dtype=np.intp)
    for label in np.unique(labels):
        turn[labels[drawn] == label] = np.arange(np.sum(labels == label))
    rows: NDArray[np.intp] = np.sort(drawn[np.argsort(turn, kind="stable")[:count]])
    return rows


def one_against_rest(probabilities: NDArray[np.float64], labels: Targets) -> NDArray[np.float64]:
    """probabilities (n, K), labels (n,) -> (K, K): how well column j ranks class k above the rest, as an AUC

    0.5 for a class that all records or none are of.
    """
    return _ranked(rankdata(probabilities, axis=0), np.eye(probabilities.shape[1])[labels])


def auc(probabilities: NDArray[np.float64], labels: Targets) -> float:
    """probabilities (n, K), labels (n,) -> the mean over the classes of one against the rest"""
    return float(np.trace(one_against_rest(probabilities, labels)) / probabilities.shape[1])


def better_order(
    probabilities: NDArray[np.float64], labels: Targets, seed: int
) -> tuple[tuple[int, ...] | None, float]:
    """probabilities (n, K), labels (n,) -> the class of each column if clearly another order fits, and the best AUC"""
    ranks, members = rankdata(probabilities, axis=0), np.eye(probabilities.shape[1])[labels]
    random, (order, best, gain) = np.random.default_rng(seed), _best(_ranked(ranks, members))
    if gain < 1e-9:
        return None, best
    as_good, allowed = 0, LEVEL * (SHUFFLES + 1) - 1
    for _ in range(SHUFFLES):
        as_good += _best(_ranked(ranks, random.permutation(members)))[2] >= gain - 1e-9
        if as_good > allowed:
            return None, best
    return order, best


def fit_labels(
    names: tuple[str, ...],
    classes: tuple[str, ...],
    probabilities: NDArray[np.float64],
    labels: Targets,
    shares: NDArray[np.float64],
    seed: int,
) -> LabelFit:
    """probabilities (m, n, K), NaN for a missing vote; labels (n,); shares (K,) of the classes among all records"""
    heard, usual = answered(probabilities), int(shares.argmax())
    members = tuple(
        _fit_member(name, said[rows], labels[rows], shares, seed)
        for name, said, rows in zip(names, probabilities, heard, strict=True)
        if rows.any()
    )
    silent = tuple(name for name, rows in zip(names, heard, strict=True) if not rows.any())
    return LabelFit(len(labels), classes, classes[usual], float(shares[usual]), members, silent)


def _fit_member(
    name: str, said: NDArray[np.float64], labels: Targets, shares: NDArray[np.float64], seed: int
) -> MemberFit:
    """said (n, K), labels (n,), shares (K,)"""
    weight = (shares / np.maximum(np.bincount(labels, minlength=len(shares)), 1))[labels]
    constant = bool((said == said[0]).all())
    order, best = better_order(said, labels, seed)
    accuracy = float(np.average(said.argmax(axis=1) == labels, weights=weight))
    return MemberFit(name, auc(said, labels), best, accuracy, constant, bool(np.isin(said, (0.0, 1.0)).all()), order)


def _ranked(ranks: NDArray[np.float64], members: NDArray[np.float64]) -> NDArray[np.float64]:
    """ranks (n, K) within each column, members (n, K) one-hot -> the AUC of each column for each class (K, K)"""
    size = members.sum(axis=0)
    pairs = size * (len(members) - size)
    above = ranks.T @ members - size * (size + 1) / 2
    found: NDArray[np.float64] = np.divide(above, pairs, out=np.full_like(above, 0.5), where=pairs > 0)
    return found


def _best(aucs: NDArray[np.float64]) -> tuple[tuple[int, ...], float, float]:
    """aucs (K, K) -> the class of each column that makes the mean AUC greatest, that mean, and its gain"""
    columns, classes = linear_sum_assignment(aucs, maximize=True)
    best = float(aucs[columns, classes].mean())
    return tuple(classes.tolist()), best, best - float(np.trace(aucs) / len(aucs))


def _aucs(member: MemberFit) -> tuple[float, float]:
    return member.auc, member.best_auc
