"""Every setting of the method: of a request, of the search, of the training and of what is measured.

All are frozen dataclasses that check themselves. `Config` is saved with a model; a `SearchConfig` comes with each call.
"""

from .distillation import AcquisitionConfig as AcquisitionConfig
from .distillation import DistillConfig as DistillConfig
from .distillation import JuryConfig as JuryConfig
from .distillation import PseudoLabelConfig as PseudoLabelConfig
from .distillation import ResidualConfig as ResidualConfig
from .measure import EvaluationConfig as EvaluationConfig
from .measure import MeasureConfig as MeasureConfig
from .measure import OracleConfig as OracleConfig
from .presets import PRESETS as PRESETS
from .presets import Config as Config
from .presets import fast as fast
from .presets import paper as paper
from .search import AnchorConfig as AnchorConfig
from .search import FrontierConfig as FrontierConfig
from .search import LocalSearchConfig as LocalSearchConfig
from .search import SearchConfig as SearchConfig
from .search import SearchMethodConfig as SearchMethodConfig
from .search import VerificationConfig as VerificationConfig
from .training import MANY_RECORDS as MANY_RECORDS
from .training import NARROW as NARROW
from .training import WIDE as WIDE
from .training import DensityProxy as DensityProxy
from .training import FlowConfig as FlowConfig
from .training import GeneratorConfig as GeneratorConfig
from .training import LossConfig as LossConfig
from .training import NoiseConfig as NoiseConfig
from .training import SelectionConfig as SelectionConfig
from .training import Solver as Solver
from .training import SurrogateConfig as SurrogateConfig
