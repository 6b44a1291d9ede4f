"""Where the networks run: the `device` setting as torch takes it.

One thread for the small networks and models of the method: more of them wait for each other.
"""

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
    """A short training on two busy cores took 39 s of processor time with two threads, and 7 s with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)
