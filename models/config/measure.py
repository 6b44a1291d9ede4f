"""How a new version is measured, and how models are compared (METHOD.md, section 8)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from .checks import Count, NotNegative, Settings, Size, positive


@dataclass(frozen=True, slots=True)
class MeasureConfig:
    """How a new version is measured, and what that costs in queries.

    records           held-out records that are explained, those where the surrogate expects less agreement than
    refused           this first
    checks            answers that are put to the ensemble, so that the figures are measured ones
    labelled          labelled records that a registered ensemble is asked about first: do its classes fit the labels?
    oracle_records    records that are compared with the oracle; for each of them
    verified_queries  is what verified search may ask, and
    oracle_queries    what the oracle may: nearly as many as it asks on the loans when nothing bounds it
    neighbours        training records that the oracle tries for each record: its first three waves
    """

    records: int = 200
    refused: float = 0.5
    checks: int = 50
    labelled: int = 0
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
        return self.labelled + self.checks + self.oracle_records * self.queries_each


@dataclass(frozen=True, slots=True)
class EvaluationConfig(Settings):
    """The protocol of `recourse evaluate` on a test split.

    records             test records at most, and
    oracle_records      how many of them verified search and the oracle answer
    max_queries         what verified search may ask for each record
    cost_budget         the mean cost that the surrogate's search is set to, by its cost weight; None: as it is
    standard_errors     so many standard errors of a cost budget are left over: other records may cost more
    weight_records      so many records of the validation split set the weight for a budget
    outlier_points      LOF and isolation forest see a sample of so many training points
    outlier_neighbours  of LOF
    """

    records: Size = 500
    oracle_records: Size = 200
    max_queries: Size = 10
    cost_budget: Annotated[float | None, positive] = None
    seed: int = 0
    standard_errors: NotNegative = 1.0
    weight_records: Size = 4000
    outlier_points: Size = 5000
    outlier_neighbours: Size = 20


@dataclass(frozen=True, slots=True)
class OracleConfig(Settings):
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

    section: ClassVar[str] = "oracle."
    queries: Size = 150_000
    start_queries: Size = 20_000
    neighbours: Size = 2048
    fractions: Size = 8
    halvings: Count = 5
    rounds: Size = 3
    first_wave: Size = 8
    pair_wave: Size = 16
