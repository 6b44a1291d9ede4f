"""Records put to the ensemble of a version as it is now: metered, and free where the answer was bought before."""

import numpy as np
from numpy.typing import NDArray

from app.blackbox.deadline import Deadline
from app.explaining.protocol import VerifiedRecord, VerifyAnswer, VerifyOrder
from app.explaining.versions import LoadedVersion
from models.ensemble.votes import agreement, answered, beta_lower_bound, votes
from models.errors import RecordError
from models.records import check_record
from models.search import target_codes


def ask_ensemble(version: LoadedVersion, order: VerifyOrder, deadline: Deadline) -> VerifyAnswer:
    """It blocks; a record that cannot be read gets its own error and is not asked."""
    schema = version.model.encoder.schema
    target = None if order.target is None else target_codes(version.model, order.target, 1)
    answers: list[VerifiedRecord | None] = [None] * len(order.records)
    rows, places = [np.empty((0, len(schema.features)))], []
    for position, record in enumerate(order.records):
        try:
            rows.append(check_record(schema, record))
            places.append(position)
        except RecordError as error:
            answers[position] = VerifiedRecord(error=str(error))
    meter = version.meter()
    with meter.open(max(1, len(places)), deadline=deadline) as ensemble:
        said = ensemble.ask(np.concatenate(rows))
    for column, position in enumerate(places):
        answers[position] = _verified(said.probabilities[:, column : column + 1], target)
    found = tuple(answer for answer in answers if answer is not None)
    return VerifyAnswer(meter.member_names, meter.classes, found, said.charged, said.reused)


def _verified(said: NDArray[np.float64], target: NDArray[np.int64] | None) -> VerifiedRecord:
    """said (m, 1, K), target (1,)"""
    heard = answered(said)[:, 0]
    rows = tuple(tuple(row.tolist()) if known else None for row, known in zip(said[:, 0], heard, strict=True))
    if target is None:
        return VerifiedRecord(rows)
    yes = votes(said, target)[:, 0]
    each = tuple(bool(vote) if known else None for vote, known in zip(yes, heard, strict=True))
    bound = beta_lower_bound(int(yes.sum()), int((heard & ~yes).sum()))
    return VerifiedRecord(rows, each, float(agreement(said, target)[0]), bound)
