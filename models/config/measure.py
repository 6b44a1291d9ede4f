"""How a new version is measured."""

from dataclasses import dataclass


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
