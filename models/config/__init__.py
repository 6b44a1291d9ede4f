"""Every setting of the method: of a request, of the search, of the training and of what is measured.

All are frozen dataclasses that check themselves. `Config` is saved with a model; a `SearchConfig` comes with each call.
"""

from .distillation import AcquisitionConfig, DistillConfig, PseudoLabelConfig, ResidualConfig, TeacherConfig
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
    DensityProxy,
    FlowConfig,
    GeneratorConfig,
    LossConfig,
    NoiseConfig,
    RankerConfig,
    SelectionConfig,
    Solver,
    SurrogateConfig,
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
