"""Every setting of the method: of a request, of the search, of the training and of what is measured.

All are frozen dataclasses that check themselves. `Config` is saved with a model; a `SearchConfig` comes with each call.
"""

from .measure import EvaluationConfig, MeasureConfig, OracleConfig
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
    AcquisitionConfig,
    DensityProxy,
    DistillConfig,
    FlowConfig,
    GeneratorConfig,
    LossConfig,
    NoiseConfig,
    PseudoLabelConfig,
    RankerConfig,
    ResidualConfig,
    SelectionConfig,
    Solver,
    SurrogateConfig,
    TeacherConfig,
)

__all__ = [
    "MANY_RECORDS",
    "MOST_HEADS",
    "NARROW",
    "PRESETS",
    "WIDE",
    "AcquisitionConfig",
    "AnchorConfig",
    "Config",
    "DensityProxy",
    "DistillConfig",
    "EvaluationConfig",
    "FlowConfig",
    "FrontierConfig",
    "GeneratorConfig",
    "LocalSearchConfig",
    "LossConfig",
    "MeasureConfig",
    "NoiseConfig",
    "OracleConfig",
    "PseudoLabelConfig",
    "RankerConfig",
    "ResidualConfig",
    "SearchConfig",
    "SearchMethodConfig",
    "SelectionConfig",
    "Solver",
    "SurrogateConfig",
    "TeacherConfig",
    "VerificationConfig",
    "fast",
    "paper",
]
