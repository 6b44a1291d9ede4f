"""Few changes: candidates that keep only the most useful of theirs.

METHOD.md, section 6.4. The flow moves every feature a little. Where only `most` features may change, each of the most
promising candidates is taken down to those that raise the agreement most, by the gradients at both ends of the way;
local search then looks at no answer that changes more.
"""

import numpy as np

from ..arrays import Floats, Targets
from ..model import RecourseModel
from ..space.actions import Actions
from ..space.encoding import Encoder
from ..space.feasible import FeasibleSet
from ..space.repair import repair
from .candidates import Candidates, measure
from .moves import changed_features
from .scoring import score_with_gradients


def sparse_candidates(
    model: RecourseModel, candidates: Candidates, target: Targets, feasible: FeasibleSet, cost_weight: Floats
) -> Candidates:
    """Of candidates (n, c) the most promising at cost_weight (n,), with their most useful changes only, and the record
    itself with what has to change, measured (n, s + 1)

    n records with a limit of changes, or with rules between features: then nothing but the record may be allowed.
    """
    count, starts = len(target), min(model.config.search.local.sparse_starts, candidates.cost.shape[1])
    value = candidates.agreement - cost_weight[:, None] * candidates.cost
    some = candidates.take(np.argsort(-value, axis=1, kind="stable")[:, :starts])
    origin = model.encoder.encode(feasible.origin)
    there = score_with_gradients(model, some.points.reshape(count * starts, -1), np.repeat(target, starts))[1]
    here = score_with_gradients(model, origin, target)[1]
    slope = (there.gradient.reshape(count, starts, -1) + here.gradient[:, None]) / 2
    worth = by_feature(model.encoder, slope * (some.points - origin[:, None]))
    forced = ~feasible.own_fits()[:, None]
    worth = np.where(changed_features(some.records, feasible.origin[:, None]), worth, -np.inf)
    worth = np.where(forced, np.inf, worth)
    rank = np.argsort(np.argsort(-worth, axis=2, kind="stable"), axis=2, kind="stable")
    kept = np.where(rank < feasible.limits()[:, None, None], some.records, feasible.origin[:, None])
    if isinstance(feasible.rules, Actions):
        kept = repair(feasible.rules, kept)[0]
    unmoved = np.where(forced, some.records[:, :1], feasible.origin[:, None])
    everyone = np.concatenate([kept, unmoved], axis=1)
    return measure(model, everyone, target, feasible, origin)


def by_feature(encoder: Encoder, values: Floats) -> Floats:
    """values (..., D), summed over the columns of each feature (..., F)"""
    starts = [where.start for where in encoder.columns]
    sums: Floats = np.add.reduceat(values, starts, axis=-1)
    return sums
