"""Our answers beside the oracle's, on the same held-out records; every question is paid from the job's queries.

The oracle of METHOD.md asks as often as it likes. This one may ask a bounded number of times: the nearest training
records of the target class until one has every vote, then back towards the applicant. It tells a person on a handful of
records how much better an answer could be; it is not the benchmark's figure.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Records, Targets
from models.config import ORACLE_QUERIES, VERIFIED_QUERIES, SearchConfig
from models.datasets.dataset import Labelled
from models.ensemble.meter import QueryMeter
from models.ensemble.protocol import Ensemble
from models.ensemble.votes import agreement
from models.errors import QueryLimitError
from models.evaluation.evaluation import answered_records
from models.evaluation.oracle import OracleConfig, oracle
from models.model import RecourseModel
from models.search.search import explain
from models.space.constraints import Constraints, compile_constraints
from models.space.encoding import cost

NEIGHBOURS = 8 + 32 + 128
"""The training records that are tried for each record: the oracle's first three waves."""
UNANIMOUS = 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class Sample:
    """The records (n, F), their targets (n,), and the answers (n, F) that the surrogate alone gave to them."""

    records: Records
    target: Targets
    unverified: Records


def beside_oracle(
    model: RecourseModel, training: Labelled, ensemble: Ensemble, sample: Sample, seed: int
) -> dict[str, object]:
    """Validity, unanimity and cost of each way; {"skipped": why} where the queries did not suffice."""
    count = len(sample.records)
    meter = QueryMeter(ensemble, count * (1 + VERIFIED_QUERIES + ORACLE_QUERIES))
    try:
        answers = {
            "unverified": sample.unverified,
            "verified": _verified(model, meter, sample, seed),
            "oracle": _oracle(model, training, meter, sample),
        }
        figures = {name: _figures(model, meter, sample, found) for name, found in answers.items()}
    except QueryLimitError as error:
        return {"skipped": str(error)}
    limit, ours = figures["oracle"]["cost"], figures["verified"]["cost"]
    ratio = ours / limit if limit > 0 else None
    return {"records": count, "queries": meter.spent, "cost_ratio": ratio, **figures}


def _verified(model: RecourseModel, meter: QueryMeter, sample: Sample, seed: int) -> Records:
    """As POST /explain answers with its ten questions a record."""
    config = SearchConfig(max_queries=VERIFIED_QUERIES, seed=seed)
    found = explain(model, sample.records, sample.target, None, config, meter)
    return answered_records(model.encoder, sample.records, found)


def _oracle(model: RecourseModel, training: Labelled, meter: QueryMeter, sample: Sample) -> Records:
    """It may change what the model may change."""
    schema, count = model.encoder.schema, len(sample.records)
    allowed = compile_constraints(schema, Constraints(frozenset(schema.names) - model.flowing), sample.records)
    config = OracleConfig(
        queries=count * ORACLE_QUERIES, start_queries=count * ORACLE_QUERIES // 2, neighbours=NEIGHBOURS, fractions=4
    )
    found = oracle(meter, model.encoder, training.records, allowed, sample.target, config, training.labels)
    return found.records


def _figures(model: RecourseModel, meter: QueryMeter, sample: Sample, answers: Records) -> dict[str, float]:
    """answers (n, F) -> their means, the votes as the ensemble gives them"""
    share = agreement(meter.predict_proba(answers), sample.target)
    paid = cost(model.encoder.encode(answers), model.encoder.encode(sample.records))
    return {
        "validity": float(share.mean()),
        "unanimity": float(np.mean(share >= UNANIMOUS)),
        "cost": float(paid.mean()),
    }
