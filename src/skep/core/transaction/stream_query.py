"""Stream queries: a named computation over a queue, with its state and its cycles.

A cycle reads a batch of the source under a lease; its state, its pushes and its ack are one change.
The computation itself runs in the client.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from uuid import UUID, uuid4
from weakref import WeakValueDictionary

import msgspec

from skep.core.aio import next_slice
from skep.core.consume.held_messages import HeldMessages
from skep.core.log.committer import Committer
from skep.core.log.entry_table import PAGE, EntryTable, entry_pages
from skep.core.transaction.transaction import Transactor
from skep.errors import LeaseLost, NotFound, QueryChanged
from skep.model.change import EntryUpdate
from skep.model.entry import Entry, check_key
from skep.model.name import LeaseId, Offset, check_name, check_queue_name
from skep.model.operation import Ack, Keep, Operation, Push, Status, Transaction, Verdict
from skep.store.protocol import EntryStore

_QUERIES = "stream.queries"
STATE = "stream.state"


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A registered query. Its hash changes when the computation does."""

    id: UUID
    name: str
    source_queue: str
    sink_queue: str | None
    config_hash: str


class CycleAck(msgspec.Struct, frozen=True, kw_only=True):
    """Settle all messages of the batch up to and including one with ``status``."""

    lease_id: LeaseId
    transaction_id: str
    status: Status
    error: str = ""
    release: bool = True
    """Release the messages after it; otherwise they are redelivered when the lease ends."""


class StreamQueries:
    def __init__(
        self,
        store: EntryStore,
        committer: Committer,
        transactor: Transactor,
        held_messages: HeldMessages,
    ) -> None:
        self._store = store
        self._queries = EntryTable(store, _QUERIES, Query)
        self._committer = committer
        self._transactor = transactor
        self._held_messages = held_messages
        self._busy: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def register(
        self,
        name: str,
        *,
        source_queue: str,
        sink_queue: str | None = None,
        config_hash: str,
        reset: bool = False,
    ) -> tuple[Query, bool]:
        """The query of this name, and whether it is new; ``reset`` deletes its state."""
        check_name("name", name)
        check_queue_name("source_queue", source_queue)
        async with self._exclusive(name):
            registered = await self.find(name)
            if registered and registered.config_hash != config_hash and not reset:
                raise QueryChanged(name)
            if registered and not reset:
                await self._committer.confirm()
                return registered, False
            query = Query(
                id=registered.id if registered else uuid4(),
                name=name,
                source_queue=source_queue,
                sink_queue=sink_queue,
                config_hash=config_hash,
            )
            await self._store_query(query)
            return query, registered is None

    async def find(self, name: str) -> Query | None:
        """The query of this name, if it is registered."""
        query, _ = await self._queries.find(check_key("name", name))
        return query

    async def state(
        self,
        query: UUID,
        partition: int,
        *,
        keys: Sequence[str] = (),
        prefix: str = "",
    ) -> AsyncIterator[list[tuple[str, Entry]]]:
        """The state of a query in a partition, by key: the named keys, or all with a prefix.

        In pages, because it may be large; other requests run between two of them.
        """
        base = _state_key(query, partition, "")
        if keys:
            wanted = sorted(
                _state_key(query, partition, check_key(f"keys[{index}]", key))
                for index, key in enumerate(keys)
            )
            pages = self._named(wanted)
        else:
            pages = entry_pages(self._store, STATE, base + check_key("prefix", prefix))
        async for page in pages:
            named = [(entry.key[len(base) :], entry) for entry in page]
            yield [(key, entry) for key, entry in named if key.startswith(prefix)]

    async def cycle(
        self,
        query: UUID,
        partition: int,
        *,
        state: Sequence[tuple[str, bytes | None]] = (),
        pushes: Sequence[Push] = (),
        ack: CycleAck | None = None,
        producer: str | None = None,
    ) -> Transaction:
        """Apply the state updates, pushes and ack of a cycle, all or nothing."""
        updates = [
            EntryUpdate(
                space=STATE,
                key=_state_key(query, partition, check_key(f"state[{index}].key", key)),
                value=value,
            )
            for index, (key, value) in enumerate(state)
        ]
        async with self._exclusive(f"{query}/{partition}"):
            operations: list[Operation] = [*pushes, Keep(updates)]
            if ack is not None:
                operations.append(await self._ack(partition, ack))
            return await self._transactor.run(operations, producer=producer)

    async def _ack(self, partition: int, ack: CycleAck) -> Ack:
        held = await self._held_messages.held(ack.lease_id, partition)
        (last,) = await self._held_messages.offsets(ack.lease_id, partition, [ack.transaction_id])
        if last is None:
            raise NotFound(f"message {ack.transaction_id!r} does not exist")
        if not held:
            raise LeaseLost(ack.lease_id)
        verdicts = [
            Verdict(partition, offset, ack.status, ack.error) for offset in held if offset <= last
        ]
        if ack.release:
            verdicts += _released(partition, held, last)
        return Ack(ack.lease_id, verdicts)

    async def _store_query(self, query: Query) -> None:
        """Store a query and delete its state."""
        updates = [
            EntryUpdate(space=STATE, key=entry.key, value=None)
            async for page in entry_pages(self._store, STATE, f"{query.id}/")
            for entry in page
        ]
        updates.append(self._queries.put(query.name, query))
        await self._transactor.run([Keep(updates)])

    async def _named(self, keys: Sequence[str]) -> AsyncIterator[list[Entry]]:
        for start in range(0, len(keys), PAGE):
            yield list(await self._store.find_entries(STATE, keys[start : start + PAGE]))
            await next_slice()

    def _exclusive(self, what: str) -> asyncio.Lock:
        """A lock by name: a cycle and a flush of the same partition never interleave."""
        return self._busy.setdefault(what, asyncio.Lock())


def _state_key(query: UUID, partition: int, key: str) -> str:
    return f"{query}/{partition}/{key}"


def renumbered(key: str, numbers: Callable[[int], int]) -> str:
    """The key of a state whose partition has a new number."""
    query, partition, rest = key.split("/", 2)
    return f"{query}/{numbers(int(partition))}/{rest}"


def _released(partition: int, held: Sequence[Offset], last: Offset) -> list[Verdict]:
    return [Verdict(partition, offset, "retry") for offset in held if offset > last]
