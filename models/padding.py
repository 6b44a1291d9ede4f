"""Rows for the networks, so many at a time and never too few: what a row comes to must not depend on its batch."""

from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK = 16
"""Rows are padded to a multiple of this: with fewer, the linear algebra takes another path, and a record's answer would
differ in its last bits from the answer that it gets in a large batch."""
CHUNK = 64 * BLOCK


def padded(values: Tensor) -> Tensor:
    """values (n, ...) -> (n', ...), n' the next multiple of BLOCK, the last row repeated"""
    lacking = -len(values) % BLOCK
    return torch.cat([values, values[-1:].expand(lacking, *values.shape[1:])]) if lacking else values


def chunks(count: int) -> Iterator[slice]:
    """Slices that cover `count` rows, CHUNK at a time"""
    return (slice(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK))
