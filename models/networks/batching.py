"""Rows for the networks, so many at a time and never too few: what a row comes to must not depend on its batch."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK = 16
"""Rows are padded to a multiple of this: with fewer, the linear algebra takes another path, and a record's answer would
differ in its last bits from the answer that it gets in a large batch."""
CHUNK = 128 * BLOCK


def padded(values: Tensor) -> Tensor:
    """values (n, ...) -> (n', ...), n' the next multiple of BLOCK, the last row repeated"""
    lacking = -len(values) % BLOCK
    return torch.cat([values, values[-1:].expand(lacking, *values.shape[1:])]) if lacking else values


def chunks(count: int) -> Iterator[slice]:
    """Slices that cover `count` rows, CHUNK at a time"""
    return (slice(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK))


def groups(count: int, each: int) -> Iterator[tuple[slice, int]]:
    """Slices that cover `count` records with `each` rows a record, about CHUNK rows at a time; and how many rows to
    give each record of a slice, at least `each`, so that all of its rows are a multiple of BLOCK
    """
    most = max(1, CHUNK // each)
    most -= most % BLOCK if most > BLOCK else 0
    for start in range(0, count, most):
        records = slice(start, min(start + most, count))
        share = BLOCK // math.gcd(records.stop - records.start, BLOCK)
        yield records, each + -each % share
