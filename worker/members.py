"""The local ensemble of a job, member by member: what was trained before a crash is not trained again."""

import hashlib
from dataclasses import dataclass, replace

from app.training.request import TrainRequest
from models.ensemble.local import EnsembleProgress, LocalEnsemble, train_local_ensemble
from models.ensemble.recipes import MEMBER_NAMES, SHORTLISTS
from models.errors import ArtifactError
from models.study import Study
from worker.job_store import JobStore
from worker.progress import Progress


@dataclass(frozen=True, eq=False)
class TrainedEnsemble:
    """The ensemble, and a version that names exactly its members."""

    ensemble: LocalEnsemble
    version: str


def train_members(study: Study, request: TrainRequest, store: JobStore, progress: Progress) -> TrainedEnsemble:
    """All members of the request, in the paper's order. Each is read back from its file, be it new or not: the bits of
    the model must not depend on whether there was a crash."""
    names = [name for name in MEMBER_NAMES if name in request.members]
    units = [SHORTLISTS[request.mode][name].units for name in names]
    members, digests = [], []
    for position, name in enumerate(names):
        found = store.member(name)
        if found is None:
            _train_one(study, request, name, store, progress, sum(units[:position]), sum(units))
            found = store.member(name)
        if found is None:
            raise ArtifactError(f"The member '{name}' cannot be read back from the artifact store.")
        members.append(found[0].members[0])
        digests.append(found[1])
    ensemble = LocalEnsemble(study.encoder, tuple(members), study.encoder.schema.classes)
    return TrainedEnsemble(ensemble, hashlib.sha256(" ".join(digests).encode()).hexdigest()[:32])


def _train_one(
    study: Study, request: TrainRequest, name: str, store: JobStore, progress: Progress, before: int, total: int
) -> None:
    def report(at: EnsembleProgress) -> None:
        progress.ensemble(replace(at, done=before + at.done, total=total))

    training = study.training
    trained = train_local_ensemble(
        study.encoder, training.records, training.labels, request.mode, (name,), request.seed, report
    )
    store.keep_member(trained)
