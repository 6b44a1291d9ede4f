"""Marks are computed from the means, one deviation of ours granted; the paper's figures stand where they belong."""

import pytest

from benchmarks.experiments.command import CATALOGUE
from benchmarks.experiments.experiment import Better, Measure
from benchmarks.experiments.published import FIVE, PAPER, Figure
from benchmarks.experiments.tables import Mark, summarise, write_cell
from models.evaluation.evaluation import PUBLISHED
from tests.benchmarks.experiments.rows import row

ROWS = [row("moons", "x", seed, figure=value) for seed, value in enumerate((0.8, 0.9, 1.0))]


@pytest.mark.parametrize(
    ("better", "paper", "mark"),
    [
        ("higher", 0.89, "beats"),
        ("higher", 0.97, "matches"),
        ("higher", 0.99, "falls short"),
        ("lower", 0.91, "beats"),
        ("lower", 0.83, "matches"),
        ("lower", 0.81, "falls short"),
        ("neither", 0.5, None),
    ],
)
def test_marks(better: Better, paper: float, mark: Mark | None) -> None:
    cell = summarise(ROWS, "moons", "x", Measure("figure", better), Figure(paper))
    assert cell is not None and cell.mark == mark
    assert cell.ours.mean == pytest.approx(0.9) and cell.seeds == 3


def test_a_difference_that_is_not_printed_is_none() -> None:
    for measure, mark in ((Measure("figure", "higher", 2), "beats"), (Measure("figure", "higher", 3), "matches")):
        cell = summarise(ROWS, "moons", "x", measure, Figure(0.904))
        assert cell is not None and cell.mark == mark


def test_a_cell_shows_ours_the_papers_and_the_mark() -> None:
    cell = summarise(ROWS, "moons", "x", Measure("figure", "higher"), Figure(0.5, 0.1))
    assert write_cell(cell) == "0.900 ± 0.082 (paper: 0.5 ± 0.1) ▲ beats"
    assert write_cell(summarise(ROWS[:1], "moons", "x", Measure("figure", digits=1), None)) == "0.8"
    assert write_cell(summarise(ROWS, "circles", "x", Measure("figure"), None)) == ""


def test_table_2_is_the_table_that_the_rest_of_the_project_knows() -> None:
    for dataset in PUBLISHED.keys() - {"musk"}:
        for name in ("cost", "validity"):
            assert PAPER["table2"][dataset, "densityflow", name].value == getattr(PUBLISHED[dataset], name)
    assert len(PAPER["table2"]) == 8 * len(FIVE) * 2


def test_every_figure_of_the_paper_has_a_cell_to_stand_in() -> None:
    experiments = {experiment.name: experiment for experiment in CATALOGUE.values()}
    for name, figures in PAPER.items():
        experiment = experiments[name]
        measures = {measure.name for measure in experiment.measures}
        for dataset, variant, measure in figures:
            assert dataset in experiment.full.datasets, (name, dataset)
            assert variant in experiment.full.variants, (name, variant)
            assert measure in measures, (name, measure)


def test_what_is_quick_is_part_of_what_is_full_or_a_smaller_data_set() -> None:
    for experiment in CATALOGUE.values():
        assert set(experiment.quick.variants) <= set(experiment.full.variants)
        assert experiment.source is None or set(experiment.quick.datasets) <= set(experiment.full.datasets)
