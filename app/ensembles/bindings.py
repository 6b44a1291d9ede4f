"""Endpoints that the operator binds to tenants, and limits on the endpoints themselves.

A tenant's budget counts what that tenant asks under one name of an ensemble. So a second tenant, or a second name,
could ask the same black box beside it. Against that the operator binds an endpoint to the tenants that may ask it, and
may set a limit that all of their ensembles share. Both are looked at when an ensemble is registered and when it is
opened for a request or a job.

A bound endpoint is a host, a part of its paths, or one model, written as the beginning of the URL that is called
(https://host/path/v2/models/name). Once one endpoint of a host is bound, the rest of that host is closed until it is
bound, too: paths can be written in many ways, and what is not known to be another one is not let through.

The limit of an endpoint is a budget of the operator's own tenant, which has no keys: its ledger, its chain and its
corrections are those of any budget. A query counts there once, however many models of the endpoint are asked.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from sqlalchemy import Connection, delete, select

from app.db.engine import insert_for
from app.db.ledger_tables import BoundEndpoint, Budget, EnsembleRow
from app.db.tables import OPERATOR, AnyRow
from app.ensembles.address import Origin, take_apart
from app.ensembles.bought import EndpointLimit
from app.errors import ConflictError, EndpointError


def put_bound(connection: Connection, ensemble_id: int, url: str, tenants: Sequence[int]) -> None:
    """Bind the endpoint to these tenants and no others; `ensemble_id`: the operator's row, whose binding may change."""
    origin = take_apart(url)
    _check_plain(origin.path.split("/")[1:], "the URL to bind")
    whole = f"{origin.scheme}://{origin.host_name}:{origin.port}{origin.path}"
    others = select(BoundEndpoint.ensemble_id).where(BoundEndpoint.url == whole)
    if connection.execute(others.where(BoundEndpoint.ensemble_id != ensemble_id)).first() is not None:
        raise ConflictError(f"{whole} is bound under another name: see `recourse endpoint list`")
    changed = {"url": whole, "host": origin.host, "tenants": sorted(set(tenants))}
    statement = insert_for(connection, BoundEndpoint).values(tenant_id=OPERATOR, ensemble_id=ensemble_id, **changed)
    keys = ["tenant_id", "ensemble_id"]
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed))


def unbind(connection: Connection, ensemble_id: int) -> bool:
    """Let the endpoint be asked by everybody again, without a limit; whether it was bound. Its ledger stays."""
    return connection.execute(delete(BoundEndpoint).where(BoundEndpoint.ensemble_id == ensemble_id)).rowcount == 1


def list_bound(connection: Connection, hosts: Sequence[str] | None = None) -> list[AnyRow]:
    """name, ensemble_id, url, host, tenants and query_limit (None without one) of those of some hosts, or of all."""
    statement = (
        select(
            EnsembleRow.name,
            BoundEndpoint.ensemble_id,
            BoundEndpoint.url,
            BoundEndpoint.host,
            BoundEndpoint.tenants,
            Budget.query_limit,
        )
        .join(EnsembleRow, EnsembleRow.id == BoundEndpoint.ensemble_id)
        .outerjoin(Budget, Budget.ensemble_id == BoundEndpoint.ensemble_id)
        .order_by(EnsembleRow.name)
    )
    wanted = statement if hosts is None else statement.where(BoundEndpoint.host.in_(hosts))
    return list(connection.execute(wanted).all())


def admit(connection: Connection, tenant_id: int, endpoints: Sequence[Mapping[str, Any]]) -> tuple[EndpointLimit, ...]:
    """The limits of the endpoints that an ensemble asks; EndpointError where one of them is not the tenant's to ask.

    endpoints: as `directory.describe` gives them.
    """
    asked = [(take_apart(each["url"]), each["model"]) for each in endpoints]
    bound = list_bound(connection, sorted({origin.host for origin, _ in asked}))
    limits: dict[int, EndpointLimit] = {}
    for origin, model in asked:
        of_host = [row for row in bound if row.host == origin.host]
        if not of_host:
            continue
        covering = [row for row in of_host if _covers(row.url, origin, model)]
        if not covering or any(tenant_id not in row.tenants for row in covering):
            place = f"the endpoint of model {model!r} at {origin.host}:{origin.port}"
            raise EndpointError(f"{place} is not bound to this tenant: the operator can bind it (`recourse endpoint`)")
        for row in covering:
            if row.query_limit is not None:
                limits[row.ensemble_id] = EndpointLimit(row.name, OPERATOR, row.ensemble_id)
    return tuple(limits[ensemble_id] for ensemble_id in sorted(limits))


def shut_out(connection: Connection) -> list[tuple[int, str]]:
    """(tenant, ensemble) of the registered ensembles that may not be asked as the bindings are."""
    remote = select(EnsembleRow.tenant_id, EnsembleRow.name, EnsembleRow.endpoints).where(EnsembleRow.kind == "remote")
    found = []
    for row in connection.execute(remote.order_by(EnsembleRow.tenant_id, EnsembleRow.name)):
        try:
            admit(connection, row.tenant_id, row.endpoints)
        except EndpointError:
            found.append((row.tenant_id, row.name))
    return found


def _covers(url: str, origin: Origin, model: str) -> bool:
    """Whether the call of a model begins with a bound URL, whole parts of the path counting."""
    bound = take_apart(url)
    parts = [*origin.path.split("/")[1:], "v2", "models", model]
    _check_plain(parts, f"the endpoint of model {model!r} at {origin.host}:{origin.port}")
    wanted = bound.path.split("/")[1:]
    same = (bound.scheme, bound.host, bound.port) == (origin.scheme, origin.host, origin.port)
    return same and parts[: len(wanted)] == wanted


def _check_plain(parts: Sequence[str], what: str) -> None:
    """A path that a server may read as another one cannot be told from one that is bound."""
    for part in parts:
        if part in ("", ".", "..") or any(sign in unquote(part) for sign in "/\\%;?#") or part != unquote(part):
            raise EndpointError(f"{what} has {part!r} in its path, and its host is bound: write a plain path")
