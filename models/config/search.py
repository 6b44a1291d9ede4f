"""One request's settings of the search, and the method's."""

import math
from dataclasses import dataclass

from ..errors import ConfigError


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """One request.

    cost_weight             the agreement that a unit of cost must bring (`price` in the API); small is robust
    min_expected_agreement  the least expected agreement of a valid answer; 0 leaves the decision to the cost weight
    min_agreement           the share of black boxes that must accept
    max_queries             how many records may be put to them for each answer; 0: the surrogate alone decides
    """

    candidates: int = 30
    cost_weight: float = 0.1
    min_expected_agreement: float = 0.5
    k: int = 1
    min_agreement: float = 1.0
    max_queries: int = 0
    seed: int = 0
    polish_rounds: int = 4
    polish_starts: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.candidates <= 1000:
            raise ConfigError(f"candidates is {self.candidates}; it must lie between 1 and 1000.")
        if not (self.cost_weight > 0 and math.isfinite(self.cost_weight)):
            raise ConfigError(f"price is {self.cost_weight}; it must be a number above 0.")
        if not 0 <= self.min_expected_agreement <= 1:
            raise ConfigError(f"min_expected_agreement is {self.min_expected_agreement}; it must lie between 0 and 1.")
        if not 1 <= self.k <= 10:
            raise ConfigError(f"k is {self.k}; it must lie between 1 and 10.")
        if not 0 < self.min_agreement <= 1:
            raise ConfigError(f"min_agreement is {self.min_agreement}; it must lie above 0 and at most at 1.")
        if self.max_queries < 0:
            raise ConfigError(f"max_queries is {self.max_queries}; it must not be negative.")
