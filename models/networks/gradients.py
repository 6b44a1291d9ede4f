"""The slope of the expected agreement, by hand.

The search asks for it at every step, of a few points: automatic differentiation would spend more time on its records
than on the arithmetic. The kernels are those that it would call.
"""

from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from .surrogate import SurrogateNet, SurrogateOutput, SurrogatePair

Back = Callable[[Tensor], Tensor]
"""The slope at a layer's output (B, out) -> the slope at its input (B, in)."""
Pass = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], tuple[Tensor, Back]]]
"""A layer forward, which may overwrite what it is told; and a layer forward with its way back."""
LEAST_SHARE = 1e-30
"""No share of votes is less: its logarithm is asked for."""
_KNOWN: WeakKeyDictionary[SurrogateNet, tuple[Pass, ...]] = WeakKeyDictionary()


def forward_with_pullback(pair: SurrogatePair, points: Tensor) -> tuple[tuple[SurrogateOutput, SurrogateOutput], Back]:
    """points (B, D) -> what each network says, and what leads from the slope of log_valid (B, K) to that at the points

    The slope is that of both networks' log_valid, and adds up to zero over the classes: only then has the normaliser of
    a single softmax no share in it.
    """
    (first, back_first), (second, back_second) = _read(pair.first, points), _read(pair.second, points)
    return (first, second), lambda slope: back_first(slope) + back_second(slope)


def forward(pair: SurrogatePair, points: Tensor) -> tuple[SurrogateOutput, SurrogateOutput]:
    """points (B, D) -> what each network says: `pair(points)` without the detour through its modules

    Nothing is kept for the way back: what a layer says takes the place of what it was told.
    """
    return _read_only(pair.first, points), _read_only(pair.second, points)


def _read_only(net: SurrogateNet, points: Tensor) -> SurrogateOutput:
    hidden = points
    for forward, _ in _passes(net):
        hidden = forward(hidden)
    return _said(net, hidden)[0]


def _read(net: SurrogateNet, points: Tensor) -> tuple[SurrogateOutput, Back]:
    hidden, backs = points, list[Back]()
    for _, forward_and_back in _passes(net):
        hidden, back = forward_and_back(hidden)
        backs.append(back)
    reading, to_head = _said(net, hidden)
    head = net.nce if net.votes is None else net.votes
    return reading, lambda slope: _back_through(head, backs, to_head(slope))


def _said(net: SurrogateNet, hidden: Tensor) -> tuple[SurrogateOutput, Back]:
    """hidden (B, width), the last of the trunk -> Reading, and the way from the slope of its log_valid to its head's"""
    nce, votes = net.nce, net.votes
    logits = functional.linear(hidden, nce.weight, nce.bias)
    if votes is None:
        return SurrogateOutput(logits, torch.log_softmax(logits, dim=1)[:, :-1]), lambda slope: slope
    said, classes = functional.linear(hidden, votes.weight, votes.bias), logits.shape[1] - 1
    if said.shape[1] == classes:
        return SurrogateOutput(logits, torch.log_softmax(said, dim=1)), lambda slope: slope
    # Points last: arithmetic along a long last axis is quick. Chances, not logarithms: half as many operations.
    chances = torch.softmax(said.T.reshape(-1, classes, len(said)), dim=1)
    share = chances.mean(dim=0).clamp_min_(LEAST_SHARE)

    def to_heads(slope: Tensor) -> Tensor:
        """slope (B, K) -> (B, H * K)"""
        each = chances * (slope.T / (share * len(chances)))
        return torch.addcmul(each, chances, each.sum(dim=1, keepdim=True), value=-1).flatten(0, 1).T

    return SurrogateOutput(logits, share.log().T), to_heads


def _back_through(head: nn.Linear, backs: list[Back], slope: Tensor) -> Tensor:
    """slope (B, K) or (B, H * K) -> (B, D); the noise class has no slope"""
    slope = slope @ head.weight[: slope.shape[1]]
    for back in reversed(backs):
        slope = back(slope)
    return slope


def _passes(net: SurrogateNet) -> tuple[Pass, ...]:
    """The layers of the trunk as functions of what they are told, made once: a module is slow to be asked."""
    known = _KNOWN.get(net)
    if known is None:
        known = _KNOWN[net] = tuple(_pass_of(layer) for layer in net.trunk)
    return known


def _pass_of(layer: nn.Module) -> Pass:
    if isinstance(layer, nn.Linear):
        return _linear(layer)
    if isinstance(layer, nn.LayerNorm):
        return _norm(layer)
    if isinstance(layer, nn.SiLU):
        silu_back = torch.ops.aten.silu_backward
        return (
            lambda x: functional.silu(x, inplace=True),
            lambda x: (functional.silu(x), lambda slope: silu_back(slope, x)),
        )
    if isinstance(layer, nn.ReLU):
        return (
            lambda x: functional.relu(x, inplace=True),
            lambda x: (functional.relu(x), lambda slope: torch.where(x > 0, slope, 0.0)),
        )
    raise TypeError(f"A trunk holds a {type(layer).__name__}, whose slope is not known here.")


def _linear(layer: nn.Linear) -> Pass:
    if parametrize.is_parametrized(layer):
        # Its weight is made anew each time.
        return (
            lambda x: functional.linear(x, layer.weight, layer.bias),
            lambda x: _linear_step(x, layer.weight, layer.bias),
        )
    weight, bias = layer.weight, layer.bias
    return lambda x: functional.linear(x, weight, bias), lambda x: _linear_step(x, weight, bias)


def _linear_step(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Back]:
    return functional.linear(x, weight, bias), lambda slope: slope @ weight


def _norm(layer: nn.LayerNorm) -> Pass:
    shape, scale, shift, least = list(layer.normalized_shape), layer.weight, layer.bias, layer.eps
    forward, backward, wanted = torch.native_layer_norm, torch.ops.aten.native_layer_norm_backward, (True, False, False)

    def forward_and_back(x: Tensor) -> tuple[Tensor, Back]:
        normed, mean, rstd = forward(x, shape, scale, shift, least)
        return normed, lambda slope: backward(slope, x, shape, mean, rstd, scale, shift, wanted)[0]

    return lambda x: forward(x, shape, scale, shift, least)[0], forward_and_back
