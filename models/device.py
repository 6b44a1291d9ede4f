"""Where the networks run: the `device` setting as torch takes it."""

import torch

from models.errors import ConfigError


def find_device(name: str) -> torch.device:
    """`cpu`, `cuda` or one card such as `cuda:1`; ConfigError where this machine does not have it."""
    device = torch.device(name)
    cards = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= cards:
        raise ConfigError(f"The device is '{name}', but torch finds {cards} CUDA cards on this machine; use cpu.")
    return device
