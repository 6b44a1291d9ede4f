"""The way that the flow takes to each of our answers, as decoded records."""

import numpy as np

from benchmarks.experiments.answers import Answers, answer
from benchmarks.experiments.bench import Bench
from models.arrays import Records
from models.data.records import check_record
from models.evaluation.evaluation import Cases
from models.search.trajectory import trace
from models.space.constraints import Constraints, compile_constraints


def ways(bench: Bench, cases: Cases) -> tuple[Answers, Records]:
    """Our answers to the cases, and the records (n, T, F) at equal times from 0 to 1 on the way to each"""
    model, _ = bench.model()
    search = bench.search(model)
    answers = answer(bench, model, search, cases)
    schema = bench.encoder.schema
    constraints = Constraints(immutable=frozenset(schema.names) - model.generated_features)
    feasible = compile_constraints(schema, constraints, cases.records)
    points = bench.encoder.encode(answers.records)
    traces = trace(model, cases.target, feasible, points, search.candidates, search.seed)
    way = [[check_record(schema, point.record)[0] for point in points] for points in traces]
    return answers, np.array(way)
