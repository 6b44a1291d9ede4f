"""From the row of an ensemble to its meter, and the queries on those rows.

The API, the explainer and the trainer use `EnsembleDirectory`; what they get can be asked through the ledger only. Here
alone is known how endpoints and credentials are stored. An ensemble that the service trains itself has a row too: one a
model, under the model's name.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from threading import Lock
from uuid import UUID

from cachetools import LRUCache
from pydantic import TypeAdapter
from sqlalchemy import Connection, insert, select, update

from app.auth.keyring import Keyring
from app.db.engine import Database, insert_or_ignore
from app.db.ledger_tables import EnsembleRow
from app.db.paging import PageOrder, RowPage, found, numbered_page
from app.db.tables import AnyRow, Document, owned
from app.ensembles.address import AddressPolicy
from app.ensembles.bindings import admit
from app.ensembles.bought import AnswerOwner, EndpointLimit
from app.ensembles.endpoint import Endpoint, EndpointPool
from app.ensembles.meter import EnsembleMeter
from app.errors import ConflictError
from app.ledger.ledger import Ledger
from app.settings import Settings
from models.data.schema import Feature, Schema
from models.ensemble.protocol import Ensemble
from models.errors import ConfigError

MOST_OPEN = 1_000
ENDPOINT = TypeAdapter(Endpoint)


class EnsembleDirectory:
    """Opens ensembles; remote ones are kept, with what their breakers know, until their row changes.

    They share one pool of connections: an ensemble that is forgotten leaves nothing open.
    """

    def __init__(self, settings: Settings, database: Database, ledger: Ledger, keyring: Keyring) -> None:
        self._database = database
        self._ledger = ledger
        self._keyring = keyring
        hosts, networks = settings.blackbox_hosts, settings.blackbox_networks
        self._pool = EndpointPool(AddressPolicy.parse(hosts, networks, settings.blackbox_plain_http))
        self._open: LRUCache[tuple[int, int], tuple[object, EnsembleMeter]] = LRUCache(MOST_OPEN)
        """(tenant, ensemble) -> the row that a meter was opened for, and the meter; those used last stay."""
        self._lock = Lock()

    def local(self, ensemble: Ensemble, tenant_id: int, ensemble_id: int, version: str) -> EnsembleMeter:
        """Around an ensemble that was loaded from a model's artifact; the caller keeps it."""
        owner = AnswerOwner(tenant_id, ensemble_id, version)
        return EnsembleMeter.local(ensemble, self._database, self._ledger, owner)

    def remote(self, tenant_id: int, ensemble_id: int, asked: Schema) -> EnsembleMeter:
        """The tenant's registered ensemble as its row says now, for a model of the schema `asked`."""
        row = self._database.read(find_ensemble_by_id, tenant_id, ensemble_id)
        row = found(row, f"ensemble {ensemble_id}: see GET /ensembles")
        check_alike(row.name, Schema.from_json(row.schema), asked)
        return self.remote_of(row)

    def remote_of(self, row: AnyRow) -> EnsembleMeter:
        """The same, for a row that was read just now."""
        if row.kind != "remote":
            raise ConfigError(f"the ensemble {row.name!r} is not a remote one: ask it through its model")
        limits = self._database.read(admit, row.tenant_id, row.endpoints)
        key, state = (row.tenant_id, row.id), (row.version, row.endpoints, row.credentials, row.schema, limits)
        with self._lock:
            held = self._open.get(key)
            if held is None or held[0] != state:
                held = self._open[key] = (state, self._connect(row, limits))
            return held[1]

    def check(self, tenant_id: int, endpoints: Sequence[Endpoint]) -> None:
        """Raise what would be in the way of calling these endpoints; nothing is called."""
        if not endpoints:
            raise ConfigError("an ensemble has no endpoint: name one or more")
        for endpoint in endpoints:
            self._pool.policy.origin(endpoint.url)
        members = [member for endpoint in endpoints for member in endpoint.members]
        if len(set(members)) != len(members):
            raise ConfigError(f"two endpoints answer for one member: {', '.join(sorted(members))}")
        self._database.read(admit, tenant_id, [describe(endpoint) for endpoint in endpoints])

    def encrypt_credentials(self, endpoints: Sequence[Endpoint]) -> str | None:
        """The credentials as they are stored: encrypted, in the order of the endpoints."""
        secrets = [None if one.credential is None else one.credential.get_secret_value() for one in endpoints]
        return self._keyring.encrypt(json.dumps(secrets)) if any(secrets) else None

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def _connect(self, row: AnyRow, limits: Sequence[EndpointLimit]) -> EnsembleMeter:
        secrets = json.loads(self._keyring.decrypt(row.credentials)) if row.credentials else [None] * len(row.endpoints)
        endpoints = tuple(
            read_endpoint(stored | {"credential": secret})
            for stored, secret in zip(row.endpoints, secrets, strict=True)
        )
        owner = AnswerOwner(row.tenant_id, row.id, row.version)
        schema = Schema.from_json(row.schema)
        parts = self._pool, self._database, self._ledger
        return EnsembleMeter.remote(schema, endpoints, *parts, owner, limits=limits)


def check_alike(name: str, registered: Schema, asked: Schema) -> None:
    """ConflictError unless a record matrix and its probabilities mean the same to the model and to the ensemble.

    Records travel as numbers: with another order of the features, categories or classes the ensemble would be asked
    about another applicant, or its votes counted for another class.
    """
    pairs = zip(registered.features, asked.features, strict=False)
    unlike = [ours.name for theirs, ours in pairs if _values(theirs) != _values(ours)]
    if registered.classes != asked.classes:
        fact = f"its classes are {', '.join(registered.classes)}, the model's are {', '.join(asked.classes)}"
    elif registered.names != asked.names:
        fact = "its features, or their order, are not those of the model"
    elif unlike:
        fact = f"the kind of '{unlike[0]}', or the order of its categories, is not that of the model"
    else:
        return
    raise ConflictError(f"the schema of ensemble '{name}' is another, {fact}: register the model's, or train again")


def _values(feature: Feature) -> tuple[object, ...]:
    return feature.kind, feature.categories


def describe(endpoint: Endpoint) -> dict[str, Document]:
    """An endpoint as it is stored and shown: without its credential."""
    stored: dict[str, Document] = ENDPOINT.dump_python(endpoint, mode="json", exclude={"credential", "max_bytes"})
    return stored


def read_endpoint(stored: dict[str, Document]) -> Endpoint:
    """The endpoint of what `describe` gave, with or without a `credential`."""
    return ENDPOINT.validate_python(stored)


def add_ensemble(connection: Connection, tenant_id: int, name: str, version: str, now: datetime) -> int:
    """Register an ensemble; its id."""
    values = {"tenant_id": tenant_id, "name": name, "version": version, "created_at": now}
    return connection.execute(insert(EnsembleRow).values(values).returning(EnsembleRow.id)).scalar_one()


def find_ensemble(connection: Connection, tenant_id: int, name: str) -> AnyRow | None:
    """The row (see `EnsembleRow`) of the tenant's ensemble, or None."""
    table = EnsembleRow.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.name == name)).one_or_none()


def find_ensemble_by_id(connection: Connection, tenant_id: int, ensemble_id: int) -> AnyRow | None:
    """The row (see `EnsembleRow`) of the tenant's ensemble, or None."""
    table = EnsembleRow.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.id == ensemble_id)).one_or_none()


def lock_ensemble(connection: Connection, tenant_id: int, name: str) -> AnyRow | None:
    """The row, held until the transaction ends."""
    table = EnsembleRow.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.name == name).with_for_update()).one_or_none()


def ensembles_page(connection: Connection, tenant_id: int, order: PageOrder) -> RowPage:
    """The tenant's ensembles, oldest first."""
    return numbered_page(connection, EnsembleRow.id, owned(EnsembleRow.__table__, tenant_id), order)


def describe_remote(
    connection: Connection,
    tenant_id: int,
    ensemble_id: int,
    version: str,
    schema: Document,
    endpoints: Document,
    credentials: str | None,
) -> None:
    """Say what a registered ensemble is and where it is asked."""
    members = [member for endpoint in endpoints for member in endpoint["members"]]
    connection.execute(
        update(EnsembleRow)
        .where(EnsembleRow.tenant_id == tenant_id, EnsembleRow.id == ensemble_id)
        .values(
            kind="remote",
            version=version,
            members=members,
            classes=schema["classes"],
            schema=schema,
            endpoints=endpoints,
            credentials=credentials,
        )
    )


def ensure_local(
    connection: Connection, tenant_id: int, name: str, job_id: UUID, members: Document, classes: Document, now: datetime
) -> int | None:
    """The id of the local ensemble of that name, made if it is not there; None if the name is a remote one's."""
    insert_or_ignore(
        connection,
        EnsembleRow,
        tenant_id=tenant_id,
        name=name,
        version=f"unpublished {job_id}",
        created_at=now,
        kind="local",
        members=members,
        classes=classes,
    )
    mine = select(EnsembleRow.id).where(
        EnsembleRow.tenant_id == tenant_id, EnsembleRow.name == name, EnsembleRow.kind == "local"
    )
    return connection.execute(mine).scalar_one_or_none()


def replace_members(
    connection: Connection,
    tenant_id: int,
    ensemble_id: int,
    version: str,
    members: Document,
    classes: Document,
    schema: Document,
) -> None:
    """From now on these answer; what was bought from others is no longer used."""
    connection.execute(
        update(EnsembleRow)
        .where(EnsembleRow.tenant_id == tenant_id, EnsembleRow.id == ensemble_id)
        .values(version=version, members=members, classes=classes, schema=schema)
    )
