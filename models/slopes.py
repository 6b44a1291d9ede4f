"""The slope of the expected agreement, by hand.

The search asks for it at every step, of a few points: automatic differentiation would spend more time on its records
than on the arithmetic. The kernels are those that it would call.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.surrogate import Reading, SurrogateNet, SurrogatePair

Back = Callable[[Tensor], Tensor]
"""The slope at a layer's output (B, out) -> the slope at its input (B, in)."""
LEAST_SHARE = 1e-30
"""No share of votes is less: its logarithm is asked for."""


def read_with_slopes(pair: SurrogatePair, points: Tensor) -> tuple[tuple[Reading, Reading], Back]:
    """points (B, D) -> what each network says, and what leads from the slope of log_valid (B, K) to that at the points

    The slope is that of both networks' log_valid, and adds up to zero over the classes: only then has the normaliser of
    a single softmax no share in it.
    """
    (first, back_first), (second, back_second) = _read(pair.first, points), _read(pair.second, points)
    return (first, second), lambda slope: back_first(slope) + back_second(slope)


def read(pair: SurrogatePair, points: Tensor) -> tuple[Reading, Reading]:
    """points (B, D) -> what each network says: `pair(points)` without the detour through its modules

    Nothing is kept for the way back: what a layer says takes the place of what it was told.
    """
    return _read_only(pair.first, points), _read_only(pair.second, points)


def _read_only(net: SurrogateNet, points: Tensor) -> Reading:
    hidden = points
    for layer in net.trunk:
        if isinstance(layer, nn.SiLU):
            hidden = functional.silu(hidden, inplace=True)
        elif isinstance(layer, nn.ReLU):
            hidden = functional.relu(hidden, inplace=True)
        else:
            hidden = _step(layer, hidden)[0]
    return _said(net, hidden)[0]


def _read(net: SurrogateNet, points: Tensor) -> tuple[Reading, Back]:
    hidden, backs = points, list[Back]()
    for layer in net.trunk:
        hidden, back = _step(layer, hidden)
        backs.append(back)
    reading, to_head = _said(net, hidden)
    head = net.nce if net.votes is None else net.votes
    return reading, lambda slope: _back_through(head, backs, to_head(slope))


def _said(net: SurrogateNet, hidden: Tensor) -> tuple[Reading, Back]:
    """hidden (B, width), the last of the trunk -> Reading, and the way from the slope of its log_valid to its head's"""
    nce, votes = net.nce, net.votes
    logits = functional.linear(hidden, nce.weight, nce.bias)
    if votes is None:
        return Reading(logits, torch.log_softmax(logits, dim=1)[:, :-1]), lambda slope: slope
    said, classes = functional.linear(hidden, votes.weight, votes.bias), logits.shape[1] - 1
    if said.shape[1] == classes:
        return Reading(logits, torch.log_softmax(said, dim=1)), lambda slope: slope
    # Points last: arithmetic along a long last axis is quick. Chances, not logarithms: half as many operations.
    chances = torch.softmax(said.T.reshape(-1, classes, len(said)), dim=1)
    share = chances.mean(dim=0).clamp_min_(LEAST_SHARE)

    def to_heads(slope: Tensor) -> Tensor:
        """slope (B, K) -> (B, H * K)"""
        each = chances * (slope.T / (share * len(chances)))
        return torch.addcmul(each, chances, each.sum(dim=1, keepdim=True), value=-1).flatten(0, 1).T

    return Reading(logits, share.log().T), to_heads


def _back_through(head: nn.Linear, backs: list[Back], slope: Tensor) -> Tensor:
    """slope (B, K) or (B, H * K) -> (B, D); the noise class has no slope"""
    slope = slope @ head.weight[: slope.shape[1]]
    for back in reversed(backs):
        slope = back(slope)
    return slope


def _step(layer: nn.Module, x: Tensor) -> tuple[Tensor, Back]:
    """One layer of a trunk, forward, and its way back."""
    if isinstance(layer, nn.Linear):
        weight = layer.weight
        return functional.linear(x, weight, layer.bias), lambda slope: slope @ weight
    if isinstance(layer, nn.LayerNorm):
        shape, scale, shift = layer.normalized_shape, layer.weight, layer.bias
        normed, mean, rstd = torch.native_layer_norm(x, shape, scale, shift, layer.eps)
        wanted = (True, False, False)
        back = torch.ops.aten.native_layer_norm_backward
        return normed, lambda slope: back(slope, x, shape, mean, rstd, scale, shift, wanted)[0]
    if isinstance(layer, nn.SiLU):
        return functional.silu(x), lambda slope: torch.ops.aten.silu_backward(slope, x)
    if isinstance(layer, nn.ReLU):
        return functional.relu(x), lambda slope: torch.where(x > 0, slope, 0.0)
    raise TypeError(f"A trunk holds a {type(layer).__name__}, whose slope is not known here.")
