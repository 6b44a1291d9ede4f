"""Where the networks run, and with how many threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits

from .errors import ConfigError


def find_device(name: str) -> torch.device:
    """`cpu`, `cuda` or one card such as `cuda:1`; ConfigError where this machine does not have it."""
    device = torch.device(name)
    cards = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= cards:
        raise ConfigError(f"The device is '{name}', but torch finds {cards} CUDA cards on this machine; use cpu.")
    return device


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside: the networks are small, so that more threads wait for each other (39 s became 7 s)."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)
