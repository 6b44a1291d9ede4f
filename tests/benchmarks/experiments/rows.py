"""Rows made by hand."""

from benchmarks.experiments.experiment import Row


def row(dataset: str, variant: str, seed: int = 0, **values: float) -> Row:
    return Row(dataset, seed, variant, values, {}, "")


def dial(dataset: str, costs: list[float], validities: list[float], queries: float = 480.0) -> Row:
    """Our row of Table 2, with the dial's points; the answers at the paper's cost are the first of them"""
    values = {"cost": costs[0], "validity": validities[0], "queries": queries, "records": 100.0}
    return Row(dataset, 0, "densityflow", values, {"dial cost": costs, "dial validity": validities}, "")
