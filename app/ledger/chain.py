"""The chain of keyed hashes over the ledger: what somebody changes who owns the database, but not the secret, shows.

Each account (a budget in one period) has a chain. An entry has the next number in it, and a MAC over the head before
it and its own content. The head, `HMAC(head key, MAC)`, is in the account's row and is overwritten by each entry, so
that nobody without the secret can make the head of an earlier entry: to cut off the newest ones takes a copy of the
head from that time. A head that was tampered with stays wrong: what follows is chained to it. The seal in the budget's
row covers which accounts there are. So the only act that does not show is to put an older state of a whole account or
budget back, from a copy; against that an operator notes outside the database what `recourse budget check` prints.
"""

import hmac
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import TypeAlias
from uuid import UUID

from app.db.ledger_tables import EntryType
from app.db.tables import AnyRow

Owner: TypeAlias = tuple[int, int] | UUID
"""Whose account it is: a budget's, as (tenant, ensemble), or a reservation's."""


@dataclass(frozen=True, slots=True)
class Line:
    """The content of an entry, before it has its place in the chain."""

    tenant_id: int
    account_id: int
    kind: EntryType
    at: datetime
    reservation_id: UUID | None = None
    query_limit: int = 0
    reserved: int = 0
    dispatched: int = 0
    used: int = 0
    reason: str | None = None
    made_by: str | None = None
    reverses: int | None = None


@dataclass(frozen=True, slots=True)
class Tip:
    """Where the chain of an account ends: the number of its newest entry, and the head behind it."""

    account_id: int
    number: int
    head: bytes


@dataclass(frozen=True, slots=True)
class Link:
    """The place of an entry in its chain, and the head behind it."""

    number: int
    mac: bytes
    head: bytes


class ChainKey:
    """The key of all chains, from the secret of the service (app/auth/keyring.py); `id` tells it from others."""

    def __init__(self, secret: bytes) -> None:
        self._entries, self._heads, self._seals = (
            hmac.digest(secret, purpose, "sha256") for purpose in (b"entries", b"heads", b"seals")
        )
        self.id = hmac.digest(secret, b"id", "sha256").hex()[:16]

    def link(self, tip: Tip, line: Line) -> Link:
        """The entry behind the tip."""
        mac = self.mac(tip.head, tip.number + 1, line)
        return Link(tip.number + 1, mac, self.head(mac))

    def mac(self, before: bytes, number: int, line: Line) -> bytes:
        return hmac.digest(self._entries, before + content(number, line), "sha256")

    def head(self, mac: bytes) -> bytes:
        return hmac.digest(self._heads, mac, "sha256")

    def seal(self, accounts: Iterable[Sequence[object]]) -> bytes:
        """accounts (id, tenant_id, ensemble_id, period, period_key) of one budget, by id -> the seal of its row."""
        opened = [[*row] for row in accounts]
        return hmac.digest(self._seals, json.dumps(opened).encode(), "sha256")


def content(number: int | None, line: Line) -> bytes:
    """What a MAC covers, the same on every database."""
    values: Sequence[object] = (
        number,
        line.tenant_id,
        line.account_id,
        line.kind,
        line.at.astimezone(UTC).isoformat(timespec="microseconds"),
        None if line.reservation_id is None else line.reservation_id.hex,
        line.query_limit,
        line.reserved,
        line.dispatched,
        line.used,
        line.reason,
        line.made_by,
        line.reverses,
    )
    return json.dumps(values).encode()


def line_of(entry: AnyRow) -> Line:
    """The content of an entry that is there (see `LedgerEntry`)."""
    return Line(
        entry.tenant_id,
        entry.account_id,
        entry.kind,
        entry.at,
        entry.reservation_id,
        entry.query_limit,
        entry.reserved,
        entry.dispatched,
        entry.used,
        entry.reason,
        entry.made_by,
        entry.reverses,
    )


MOST_KEPT = 10_000
BUSY_STEPS = 16


class KnownTips:
    """The tips that this process left behind: where nobody else writes, a step need not look before it.

    A tip is trusted while each look finds what was left. Wrong ones cost a look and nothing else: the step's guard asks
    for the number.
    """

    def __init__(self) -> None:
        self._left: dict[int, Tip] = {}
        self._trusted: dict[int, Tip] = {}
        self._accounts: dict[Owner, int] = {}
        self._busy: dict[int, int] = {}
        self._turns: defaultdict[int | None, Lock] = defaultdict(Lock)

    @contextmanager
    def turn(self, owner: Owner, patience: float) -> Iterator[None]:
        """Threads of this process take their steps on one account in turn: the database would let them wait as well.

        After `patience` seconds a step goes on without its turn, which costs it a look.
        """
        turn = self._turns[self._accounts.get(owner)]
        mine = turn.acquire(timeout=patience)
        try:
            yield
        finally:
            if mine:
                turn.release()

    def find(self, owner: Owner) -> Tip | None:
        """The trusted tip of the account of a budget (tenant, ensemble) or a reservation."""
        account_id = self._accounts.get(owner)
        return None if account_id is None else self._trusted.get(account_id)

    def is_busy(self, owner: Owner) -> bool:
        """Whether another process was quicker between a look and its step: then the next steps hold the account."""
        account_id = self._accounts.get(owner)
        steps = 0 if account_id is None else self._busy.get(account_id, 0)
        if account_id is not None and steps:
            self._busy[account_id] = steps - 1
        return steps > 0

    def left(self, owner: Owner, tip: Tip, looked: Tip | None, missed: bool) -> None:
        """This process's step ended at `tip`; `looked` is what it found before, if it had to look.

        missed: what it looked at without holding it was not there any more when it wrote.
        """
        for kept in (self._left, self._trusted, self._accounts, self._turns, self._busy):
            if len(kept) > MOST_KEPT:
                kept.clear()
        before = self._left.get(tip.account_id, looked)
        self._left[tip.account_id] = tip
        self._accounts[owner] = tip.account_id
        if missed:
            self._busy[tip.account_id] = BUSY_STEPS
        if looked is None or looked == before:
            self._trusted[tip.account_id] = tip
        else:
            self._trusted.pop(tip.account_id, None)

    def share(self, owner: tuple[int, int], reservation: UUID) -> None:
        """The reservation was just taken from the owner's account."""
        if owner in self._accounts:
            self._accounts[reservation] = self._accounts[owner]

    def forget(self, owner: UUID) -> None:
        """The reservation is closed."""
        self._accounts.pop(owner, None)
