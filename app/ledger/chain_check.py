"""Whether the chains over the ledger hold (chain.py), and how a chain begins over what was written before it.

A chain begins with the account. Entries from before there were chains, or from before the secret was lost, are covered
by an anchor: an entry whose MAC is over a hash of all that was there. From it on the chain holds.
"""

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, exists, select, update

from app.db.engine import Database, allow_time
from app.db.ledger_tables import Account, Budget, EntryType, LedgerEntry
from app.db.tables import AnyRow, utc_now
from app.ledger.chain import ChainKey, Line, Link, content, line_of
from app.ledger.queries import accounts_of, lock_budget, write_link

PAGE = 2000
MOST_NAMED = 20
"""Contradictions that are named for one account."""


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """Where the chain of an account ends, to be noted outside the database; it holds from the entry `since` on."""

    account_id: int
    number: int
    mac: str
    since: int | None = None


def begin_chains(database: Database, key: ChainKey, clock: Callable[[], datetime] = utc_now) -> int:
    """Anchor every account of a database from before there were chains; how many.

    Only while no account has a chain: one that lost its chain later must not be given another without a word.
    """
    if not database.read(is_unchained):
        return 0
    with database.writing() as connection:
        allow_time(connection)
        budgets = select(Budget.tenant_id, Budget.ensemble_id).order_by(Budget.tenant_id, Budget.ensemble_id)
        found = connection.execute(budgets.with_for_update()).all()
        if not is_unchained(connection):
            return 0
        return sum(anchor_budget(connection, key, *budget, clock()) for budget in found)


def is_unchained(connection: Connection) -> bool:
    """Whether there are accounts, and none has a chain."""
    chained = exists(select(Account.id).where(Account.chain_head.is_not(None)))
    return bool(connection.execute(select(exists(select(Account.id)) & ~chained)).scalar_one())


def anchor_budget(
    connection: Connection,
    key: ChainKey,
    tenant_id: int,
    ensemble_id: int,
    now: datetime,
    reason: str | None = None,
    made_by: str | None = None,
) -> int:
    """Begin new chains over all accounts of a budget as they are now, and seal them; how many there are."""
    lock_budget(connection, tenant_id, ensemble_id)
    accounts = accounts_of(connection, tenant_id, ensemble_id)
    for account in accounts:
        held = select(Account.chain_number).where(Account.id == account.id).with_for_update()
        number = connection.execute(held).scalar_one() + 1
        everything = hashlib.sha256()
        for entry in _entries(connection, account.id):
            everything.update(_covered(entry))
        line = Line(tenant_id, account.id, EntryType.ANCHOR, now, reason=reason, made_by=made_by)
        mac = key.mac(everything.digest(), number, line)
        write_link(connection, line, Link(number, mac, key.head(mac)))
        connection.execute(update(Account).where(Account.id == account.id).values(chain_key=key.id))
    budget = update(Budget).where(Budget.tenant_id == tenant_id, Budget.ensemble_id == ensemble_id)
    connection.execute(budget.values(accounts_seal=key.seal(accounts)))
    return len(accounts)


def check_chains(
    connection: Connection, key: ChainKey, noted: Sequence[ChainEnd] = ()
) -> tuple[list[str], list[ChainEnd]]:
    """(one sentence for each contradiction, where each chain ends); entries are read in pages."""
    walks: dict[int, _Walk] = defaultdict(lambda: _Walk(key))
    for one in noted:
        walks[one.account_id].noted[one.number] = one.mac
    for entry in _entries(connection):
        walks[entry.account_id].step(entry)
    accounts = connection.execute(select(Account.__table__).order_by(Account.id)).all()
    contradictions = [sentence for account in accounts for sentence in _compare(walks[account.id], account, key)]
    there = {account.id for account in accounts}
    for account_id in sorted({one.account_id for one in noted} - there):
        contradictions.append(f"account {account_id} was noted outside, and is not there: it was removed")
    contradictions += _seals(connection, key, accounts)
    walked = [(account.id, walks[account.id]) for account in accounts]
    return contradictions, [ChainEnd(number, one.number, one.mac.hex(), one.since) for number, one in walked]


def _seals(connection: Connection, key: ChainKey, accounts: Sequence[AnyRow]) -> Iterator[str]:
    """Each budget has the accounts that were opened for it, no fewer and no more."""
    by_budget: dict[tuple[int, int], list[AnyRow]] = defaultdict(list)
    for account in accounts:
        by_budget[account.tenant_id, account.ensemble_id].append(account)
    for budget in connection.execute(select(Budget.__table__)):
        owner = (budget.tenant_id, budget.ensemble_id)
        opened = by_budget[owner]
        if any(account.chain_key != key.id for account in opened):
            continue  # Told of each of those accounts.
        covered = [(one.id, one.tenant_id, one.ensemble_id, one.period, one.period_key) for one in opened]
        if not hmac.compare_digest(budget.accounts_seal or b"", key.seal(covered)):
            where = f"the budget of tenant {owner[0]} for ensemble {owner[1]}"
            yield f"{where} has {len(opened)} accounts that are not the ones opened for it: one was removed or added"


@dataclass
class _Walk:
    """Along the entries of one account, oldest first."""

    key: ChainKey
    number: int = 0
    head: bytes = b""
    mac: bytes = b""
    since: int | None = None
    """The entry that the chain holds from."""
    newest: int = 0
    gaps: dict[int, int] = field(default_factory=dict)
    """Numbers that are missing, and the entry that stands behind each gap."""
    sentences: list[str] = field(default_factory=list)
    noted: dict[int, str] = field(default_factory=dict)
    before: Any = field(default_factory=hashlib.sha256)

    def step(self, entry: AnyRow) -> None:
        anchored = entry.kind == EntryType.ANCHOR and _fits(self.key, self.before.digest(), entry)
        if anchored:
            self.since, self.gaps, self.sentences = entry.id, {}, []
        elif entry.number is not None or self.since is not None:
            self._follow(entry)
        if entry.number is not None and (anchored or entry.number > self.number):
            self.number, self.mac = entry.number, entry.mac or b""
            self.head, self.newest = self.key.head(self.mac), entry.id
        if (mac := self.noted.pop(entry.number, None)) is not None and mac != (entry.mac or b"").hex():
            self.sentences.append(f"entry {entry.id} is not the one that was noted outside: its chain was rewritten")
        self.before.update(_covered(entry))

    def _follow(self, entry: AnyRow) -> None:
        """What is wrong with an entry at its place."""
        name, number = f"entry {entry.id}", entry.number
        if number is None:
            self.sentences.append(f"{name} was inserted: it has no place in its chain")
        elif number in self.gaps:
            later = self.gaps.pop(number)
            self.sentences.append(
                f"{name} has number {number} and stands behind entry {later}: their order was changed"
            )
        elif number <= self.number:
            self.sentences.append(f"{name} was inserted: number {number} of its chain was there before it")
        elif number > self.number + 1:
            missing = range(self.number + 1, min(number, self.number + 1 + PAGE))
            self.gaps |= dict.fromkeys(missing, entry.id)
        elif not _fits(self.key, self.head, entry):
            self.sentences.append(f"{name} does not fit its MAC: it was edited, or is not where it was written")
        elif self.since is None:
            self.since = entry.id
        del self.sentences[MOST_NAMED:]


def _fits(key: ChainKey, before: bytes, entry: AnyRow) -> bool:
    return hmac.compare_digest(entry.mac or b"", key.mac(before, entry.number, line_of(entry)))


def _compare(walk: _Walk, account: AnyRow, key: ChainKey) -> Iterator[str]:
    """What is wrong with an account's chain as a whole."""
    where = f"account {account.id} of tenant {account.tenant_id} ({account.period_key})"
    if account.chain_key is None:
        yield f"the chain of {where} has not begun: run `recourse migrate`, or see `recourse budget begin-chain`"
        return
    if account.chain_key != key.id:
        yield (
            f"the chain of {where} was begun with another secret and cannot be checked with this one: restore the "
            "secret, or, if it is lost, begin a new chain with `recourse budget begin-chain`"
        )
        return
    yield from (f"{sentence} ({where})" for sentence in walk.sentences)
    for first, last, behind in _ranges(walk.gaps):
        numbers = f"number {first}" if first == last else f"numbers {first} to {last}"
        yield f"{numbers} of the chain of {where}, before entry {behind}, is missing: entries were removed"
    if walk.number < account.chain_number:
        yield f"the chain of {where} ends at number {walk.number}, not {account.chain_number}: entries were removed"
    elif walk.number > account.chain_number or not hmac.compare_digest(account.chain_head or b"", walk.head):
        fact = f"the head of the chain of {where} is not that of entry {walk.newest}"
        yield f"{fact}: newer entries were removed, or the account's row was changed"
    for number in sorted(walk.noted):
        fact = f"number {number} of the chain of {where} was noted outside, and is not there"
        yield f"{fact}: an older state was put back"


def _ranges(gaps: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    """(first number, last number, entry behind) of each run of missing numbers."""
    first = last = behind = 0
    for number, entry in sorted(gaps.items()):
        if behind and (number, entry) != (last + 1, behind):
            yield first, last, behind
            first = number
        elif not behind:
            first = number
        last, behind = number, entry
    if behind:
        yield first, last, behind


def _covered(entry: AnyRow) -> bytes:
    """What an anchor covers of an entry."""
    return content(entry.number, line_of(entry)) + (entry.mac or b"")


def _entries(connection: Connection, account_id: int | None = None) -> Iterator[Row[Any]]:
    """All entries, or those of one account, oldest first, in pages."""
    table = LedgerEntry.__table__
    wanted = select(table).order_by(table.c.id).limit(PAGE)
    if account_id is not None:
        wanted = wanted.where(table.c.account_id == account_id)
    last = 0
    while page := connection.execute(wanted.where(table.c.id > last)).all():
        yield from page
        last = page[-1].id
