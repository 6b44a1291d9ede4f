"""Every setting of the method: of a request, of the search, of the training and of what is measured.

All are frozen dataclasses that check themselves. `Config` is saved with a model; a `SearchConfig` comes with each call.
"""

from .measure import MeasureConfig
from .presets import PRESETS, Config, fast, paper
from .search import (
    AnchorConfig,
    FrontierConfig,
    LocalSearchConfig,
    SearchConfig,
    SearchMethodConfig,
    VerificationConfig,
)
from .training import (
    MANY_RECORDS,
    MOST_HEADS,
    NARROW,
    WIDE,
    DensityProxy,
    DistillConfig,
    FlowConfig,
    GeneratorConfig,
    LossConfig,
    NoiseConfig,
    RankerConfig,
    Solver,
    SurrogateConfig,
)

__all__ = [
    "MANY_RECORDS",
    "MOST_HEADS",
    "NARROW",
    "PRESETS",
    "WIDE",
    "AnchorConfig",
    "Config",
    "DensityProxy",
    "DistillConfig",
    "FlowConfig",
    "FrontierConfig",
    "GeneratorConfig",
    "LocalSearchConfig",
    "LossConfig",
    "MeasureConfig",
    "NoiseConfig",
    "RankerConfig",
    "SearchConfig",
    "SearchMethodConfig",
    "Solver",
    "SurrogateConfig",
    "VerificationConfig",
    "fast",
    "paper",
]
