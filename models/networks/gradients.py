"""The surrogate's forward pass and its vector-Jacobian product, by hand.

Local search asks for the gradient of the expected agreement at every step, of a few points: automatic differentiation
would spend more time on its records than on the arithmetic. The kernels are those that it would call.
"""

from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from .surrogate import SurrogateNet, SurrogateOutput, SurrogatePair

Pullback = Callable[[Tensor], Tensor]
"""The gradient at a layer's output (B, out) -> the gradient at its input (B, in): a vector-Jacobian product."""
Pass = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], tuple[Tensor, Pullback]]]
"""A layer forward, which may overwrite its input; and a layer forward with its pullback."""
LEAST_SHARE = 1e-30
"""A share of votes is at least this, so that its logarithm is finite."""
_KNOWN: WeakKeyDictionary[SurrogateNet, tuple[Pass, ...]] = WeakKeyDictionary()


def forward_with_pullback(
    pair: SurrogatePair, points: Tensor
) -> tuple[tuple[SurrogateOutput, SurrogateOutput], Pullback]:
    """points (B, D) -> both networks' outputs, and the pullback from log_class_share (B, K) to the points (B, D)

    The gradient that the pullback takes is that of both networks' log_class_share, and adds up to zero over the
    classes: only then has the normaliser of a single softmax no part in it.
    """
    (first, back_first), (second, back_second) = (
        _forward_and_back(pair.first, points),
        _forward_and_back(pair.second, points),
    )
    return (first, second), lambda slope: back_first(slope) + back_second(slope)


def forward_with_autograd(
    pair: SurrogatePair, points: Tensor
) -> tuple[tuple[SurrogateOutput, SurrogateOutput], Pullback]:
    """What `forward_with_pullback` does, by automatic differentiation: the same up to rounding, and slower"""
    with torch.inference_mode(False), torch.enable_grad():
        at = points.clone().requires_grad_()
        first, second = pair(at)

    def pullback(slope: Tensor) -> Tensor:
        with torch.inference_mode(False):
            shares = (first.log_class_share, second.log_class_share)
            (gradient,) = torch.autograd.grad(shares, at, (slope.clone(), slope.clone()))
        return gradient

    detached = (SurrogateOutput(each.logits.detach(), each.log_class_share.detach()) for each in (first, second))
    return (next(detached), next(detached)), pullback


def forward(pair: SurrogatePair, points: Tensor) -> tuple[SurrogateOutput, SurrogateOutput]:
    """points (B, D) -> both networks' outputs: `pair(points)` without the detour through its modules

    Nothing is kept for a pullback: a layer's output takes the place of its input.
    """
    return _forward(pair.first, points), _forward(pair.second, points)


def _forward(net: SurrogateNet, points: Tensor) -> SurrogateOutput:
    hidden = points
    for forward, _ in _passes(net):
        hidden = forward(hidden)
    return _heads(net, hidden)[0]


def _forward_and_back(net: SurrogateNet, points: Tensor) -> tuple[SurrogateOutput, Pullback]:
    hidden, backs = points, list[Pullback]()
    for _, forward_and_back in _passes(net):
        hidden, back = forward_and_back(hidden)
        backs.append(back)
    output, to_head = _heads(net, hidden)
    head = net.nce if net.votes is None else net.votes
    return output, lambda slope: _back_through(head, backs, to_head(slope))


def _heads(net: SurrogateNet, hidden: Tensor) -> tuple[SurrogateOutput, Pullback]:
    """hidden (B, width), the last of the trunk -> the output, and the pullback from its log_class_share to its head"""
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


def _back_through(head: nn.Linear, backs: list[Pullback], slope: Tensor) -> Tensor:
    """slope (B, K) or (B, H * K) -> (B, D); the noise class has no slope"""
    slope = slope @ head.weight[: slope.shape[1]]
    for back in reversed(backs):
        slope = back(slope)
    return slope


def _passes(net: SurrogateNet) -> tuple[Pass, ...]:
    """The layers of the trunk as functions, made once: calling a module is slow."""
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
        # Its weight is computed each time.
        return (
            lambda x: functional.linear(x, layer.weight, layer.bias),
            lambda x: _linear_step(x, layer.weight, layer.bias),
        )
    weight, bias = layer.weight, layer.bias
    return lambda x: functional.linear(x, weight, bias), lambda x: _linear_step(x, weight, bias)


def _linear_step(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Pullback]:
    return functional.linear(x, weight, bias), lambda slope: slope @ weight


def _norm(layer: nn.LayerNorm) -> Pass:
    shape, scale, shift, least = list(layer.normalized_shape), layer.weight, layer.bias, layer.eps
    forward, backward, wanted = torch.native_layer_norm, torch.ops.aten.native_layer_norm_backward, (True, False, False)

    def forward_and_back(x: Tensor) -> tuple[Tensor, Pullback]:
        normed, mean, rstd = forward(x, shape, scale, shift, least)
        return normed, lambda slope: backward(slope, x, shape, mean, rstd, scale, shift, wanted)[0]

    return lambda x: forward(x, shape, scale, shift, least)[0], forward_and_back
