"""The ensemble of a job: one that is registered, or one that the job trains. Either is asked through the ledger."""

from dataclasses import dataclass, replace

from app.blackbox.meter import EnsembleMeter
from app.blackbox.registry import EnsembleRegistry, check_alike
from app.db import ensembles, local_ensembles
from app.db.answers import AnswerOwner
from app.db.types import AnyRow
from app.errors import ConflictError, NotFoundError
from app.keys import open_keyring
from app.ledger.ledger import utc_now
from app.training.request import TrainRequest
from models.ensemble.local import LocalEnsemble
from models.errors import SchemaError
from models.schema import Schema, override_table
from models.study import Study
from worker.bench import Bench
from worker.members import train_members
from worker.reserved import ensure_budget


@dataclass(frozen=True, eq=False)
class BlackBoxes:
    """An ensemble, whose answers it gives, and the way to it; `trained` only where this job made it."""

    owner: AnswerOwner
    meter: EnsembleMeter
    trained: LocalEnsemble | None


def find_registered(bench: Bench, name: str) -> AnyRow:
    """The row of a remote ensemble."""
    with bench.database.reading() as connection:
        row = ensembles.find(connection, bench.held.tenant_id, name)
    if row is None or row.kind != "remote":
        raise NotFoundError(f"there is no registered ensemble '{name}'")
    return row


def registered_schema(name: str, schema: Schema, label: str | None, request: TrainRequest) -> Schema:
    """What the ensemble takes; the request may only narrow what an applicant can change."""
    protected = {feature.name for feature in schema.features if feature.protected}
    for feature, changes in override_table(request.overrides).items():
        if feature in protected and changes.get("protected") is False:
            raise SchemaError(f"Feature '{feature}' is protected by the schema of ensemble '{name}'; it stays so.")
    narrowed = replace(schema, label=label or schema.label).with_overrides(request.overrides)
    check_alike(name, schema, narrowed)
    return narrowed


def ensure_local(bench: Bench, model_name: str, request: TrainRequest, classes: tuple[str, ...]) -> int:
    """The id of the ensemble that the job is going to train, with a budget; it is made before the members are."""
    held = bench.held
    ensemble_id = held.write(
        lambda connection: local_ensembles.ensure(
            connection, held.tenant_id, model_name, held.id, list(request.members), list(classes), utc_now()
        )
    )
    if ensemble_id is None:
        raise ConflictError(f"'{model_name}' is a registered ensemble; train against it, or name the model otherwise")
    ensure_budget(bench.database, bench.ledger, held.tenant_id, ensemble_id, bench.settings.default_budget)
    return ensemble_id


def open_registered(bench: Bench, row: AnyRow) -> BlackBoxes:
    registry = EnsembleRegistry(bench.settings, bench.database, bench.ledger, open_keyring(bench.settings))
    return BlackBoxes(AnswerOwner(row.tenant_id, row.id, row.version), registry.remote_of(row), None)


def train_local(bench: Bench, ensemble_id: int, request: TrainRequest, study: Study) -> BlackBoxes:
    trained = train_members(study, request, bench.files, bench.progress)
    owner = AnswerOwner(bench.held.tenant_id, ensemble_id, trained.version)
    meter = EnsembleMeter.local(trained.ensemble, bench.database, bench.ledger, owner)
    return BlackBoxes(owner, meter, trained.ensemble)
