"""How a new version is measured, and how models are compared (METHOD.md, section 8)."""

from dataclasses import dataclass

from ..errors import ConfigError
from .checks import at_least
from .search import FrontierConfig


@dataclass(frozen=True, slots=True)
class MeasureConfig:
    """How a new version is measured, and what that costs in queries.

    records           held-out records that are explained, those where the surrogate expects less agreement than
    refused           this first
    checks            answers that are put to the ensemble, so that the figures are measured ones
    oracle_records    records that are compared with the oracle; for each of them
    verified_queries  is what verified search may ask, and
    oracle_queries    what the oracle may: nearly as many as it asks on the loans when nothing bounds it
    neighbours        training records that the oracle tries for each record: its first three waves
    """

    records: int = 200
    refused: float = 0.5
    checks: int = 50
    oracle_records: int = 10
    verified_queries: int = 10
    oracle_queries: int = 100
    neighbours: int = 8 + 32 + 128

    @property
    def queries_each(self) -> int:
        """Queries for one record that is compared with the oracle; one is for the answer without a query."""
        return 1 + self.verified_queries + self.oracle_queries

    @property
    def queries(self) -> int:
        """The most that all of it takes."""
        return self.checks + self.oracle_records * self.queries_each


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """The protocol of `recourse evaluate` on a test split.

    records             test records at most, and
    oracle_records      how many of them verified search and the oracle answer
    max_queries         what verified search may ask for each record
    cost_budget         the mean cost that the surrogate's search is set to, by its cost weight; None: as it is
    cost_weights        the weights whose cost and validity are measured; none of them is fine
    frontier_records    so many of the test records are answered at each of them
    standard_errors     so many standard errors of a cost budget are left over: other records may cost more
    weight_records      so many records of the validation split set the weight for a budget
    outlier_points      LOF and isolation forest see a sample of so many training points
    outlier_neighbours  of LOF
    """

    records: int = 500
    oracle_records: int = 200
    max_queries: int = 10
    cost_budget: float | None = None
    cost_weights: tuple[float, ...] = FrontierConfig().cost_weights
    frontier_records: int = 500
    seed: int = 0
    standard_errors: float = 1.0
    weight_records: int = 4000
    outlier_points: int = 5000
    outlier_neighbours: int = 20

    def __post_init__(self) -> None:
        for name in ("records", "oracle_records", "frontier_records", "weight_records", "outlier_points"):
            if (value := getattr(self, name)) < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1.")
        if self.max_queries < 1:
            raise ConfigError(f"max_queries is {self.max_queries}; verified search needs at least 1.")
        if self.cost_budget is not None and self.cost_budget <= 0:
            raise ConfigError(f"cost_budget is {self.cost_budget}; it must be above 0.")
        at_least("standard_errors", self.standard_errors, 0)
        at_least("outlier_neighbours", self.outlier_neighbours, 1)


@dataclass(frozen=True, slots=True)
class OracleConfig:
    """How long the oracle may look.

    queries        bounds the records asked in one call, all stages together
    start_queries  once so many were asked, no further training records are tried
    neighbours     the training records that are tried for each record at most, nearest first
    fractions      the steps of the line search
    halvings       how often it then halves the last step
    rounds         of line search and reverting
    first_wave     so many neighbours of each record are asked at first; each further wave asks four times as many
    pair_wave      so many changes of one or two categories are asked at first; each further wave asks twice as many
    """

    queries: int = 150_000
    start_queries: int = 20_000
    neighbours: int = 2048
    fractions: int = 8
    halvings: int = 5
    rounds: int = 3
    first_wave: int = 8
    pair_wave: int = 16

    def __post_init__(self) -> None:
        for name in ("queries", "start_queries", "neighbours", "fractions", "rounds", "first_wave", "pair_wave"):
            if (value := getattr(self, name)) < 1:
                raise ConfigError(f"The oracle's {name} is {value}; it must be at least 1.")
        if self.halvings < 0:
            raise ConfigError(f"The oracle's halvings is {self.halvings}; it must not be negative.")
