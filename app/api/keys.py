"""/keys: API keys, for admins only."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import Connection

from app.api.dependencies import (
    AdminCaller,
    DatabaseDep,
    IdempotencyKey,
    KeyedRoute,
    Page,
    PageQuery,
    ResourcesDep,
    part,
    replied,
)
from app.api.problems import WITH_BODY, problems
from app.auth import queries, service
from app.auth.principals import KeyCache
from app.db.tables import Role, utc_now
from app.errors import ConflictError
from app.fields import TEXT_PATTERN, Body, Moment
from app.idempotency import StoredReply


def _in_the_future(moment: datetime) -> datetime:
    if moment <= utc_now():
        raise ValueError("it is over already: name a time to come")
    return moment


class KeyBody(Body):
    """A key to make."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "loan system", "role": "client"}]})

    name: Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=TEXT_PATTERN)]
    role: Role = Role.CLIENT
    expires_at: Annotated[Moment, AfterValidator(_in_the_future)] | None = Field(
        default=None, description="After this the key works no more; without it, until it is revoked."
    )


class KeyAnswer(BaseModel):
    """A key, without what opens the door."""

    model_config = ConfigDict(from_attributes=True)

    id: UUID
    name: str
    role: Role
    prefix: str = Field(description="The first eight characters after rk_, to tell keys apart.", examples=["3f9a1c07"])
    created_at: datetime
    revoked_at: datetime | None
    expires_at: datetime | None
    last_used_at: datetime | None = Field(description="To the minute; null: never.")


class NewKeyAnswer(KeyAnswer):
    """A new key: the only time that it is shown."""

    key: str = Field(description="Shown once: only its digest is kept.", examples=["rk_3f9a1c07..."])


KeysDep = Annotated[KeyCache, Depends(part("keys"))]

router = APIRouter(prefix="/keys", tags=["keys"], route_class=KeyedRoute)


SHOWN_SECONDS = 600.0
"""How long a repeated request under the same idempotency key is told the key once more."""


@router.post(
    "", status_code=201, operation_id="make_key", response_model=NewKeyAnswer, responses=problems(*WITH_BODY, 409)
)
def make(body: KeyBody, caller: AdminCaller, resources: ResourcesDep, keyed: IdempotencyKey) -> Response:
    """Make a key for the own tenant; it is shown once.

    Under an `Idempotency-Key` the same request is told the same key for ten minutes more: until then it is kept
    encrypted. Afterwards the answer is a 409 that names the key's id.
    """
    keyring = resources.keyring

    def work(connection: Connection) -> StoredReply:
        key, row = service.add_key(connection, keyring, caller.tenant_id, body.name, body.role, body.expires_at)
        made = NewKeyAnswer(**KeyAnswer.model_validate(row).model_dump(), key=key.text)
        return StoredReply(201, keyring.encrypt(made.model_dump_json()))

    reply = resources.idempotent.once(caller.tenant_id, "/keys", keyed, work)
    shown = keyring.decrypt(reply.body)
    if reply.replayed and keyring.is_older(reply.body, SHOWN_SECONDS):
        key_id = NewKeyAnswer.model_validate_json(shown).id
        raise ConflictError(
            f"key {key_id} was made under this idempotency key and is shown no more: revoke it, make another"
        )
    return replied(replace(reply, body=shown))


@router.get("", operation_id="list_keys", responses=problems())
def page(order: PageQuery, caller: AdminCaller, database: DatabaseDep) -> Page[KeyAnswer]:
    """The own tenant's keys, revoked ones too."""
    return Page[KeyAnswer].of(database.read(queries.keys_page, caller.tenant_id, order))


@router.delete("/{key_id}", status_code=204, operation_id="revoke_key", responses=problems(404, 409))
def revoke(key_id: UUID, caller: AdminCaller, database: DatabaseDep, keys: KeysDep) -> None:
    """Revoke a key; other processes notice within RECOURSE_KEY_CACHE_SECONDS."""
    service.revoke_key(database, caller.tenant_id, key_id)
    keys.forget()
