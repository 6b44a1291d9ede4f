"""The device setting."""

import pytest
import torch

from models.device import find_device
from models.errors import ConfigError


def test_the_cpu_is_everywhere() -> None:
    assert find_device("cpu") == torch.device("cpu")


def test_a_card_that_is_not_there() -> None:
    cards = torch.cuda.device_count()
    with pytest.raises(ConfigError, match=f"'cuda:{cards}', but torch finds {cards} CUDA cards"):
        find_device(f"cuda:{cards}")
