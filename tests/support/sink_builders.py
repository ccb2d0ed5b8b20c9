"""Short words for what the tests of a sink are made of."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from skep import Broker, Limits, Message
from skep.errors import OutcomeUnknown, Unavailable
from skep.model.change import Change, Commit
from skep.model.sink import Published, Stage, StagedRows
from skep.store.clock import Clock
from skep.store.memory import MemoryStore
from skep.store.postgres.store import PostgresStore
from skep.store.protocol import Store
from skep.store.rocksdb.store import RocksStore
from tests.support.broker_builders import make_broker
from tests.support.postgres_databases import databases

APP = "query-1"
IN_STEPS = Limits(publish_messages=4)
"""So few messages in a change that everything larger is published chunk by chunk."""


def rows(
    *payloads: bytes | None,
    queues: Sequence[str | None] | None = None,
    partitions: Sequence[str | None] | None = None,
    ids: Sequence[str | None] | None = None,
    traces: Sequence[str | None] | None = None,
) -> StagedRows:
    return StagedRows(
        payloads=payloads,
        queues=queues,
        partitions=partitions,
        transaction_ids=ids,
        trace_ids=traces,
    )


def numbers(first: int, stop: int) -> StagedRows:
    """Rows whose payloads are numbers."""
    return rows(*(b"%d" % number for number in range(first, stop)))


async def stage(
    queue: Broker, name: str, *chunks: StagedRows, version: int | None = 0, app: str = APP
) -> Stage:
    """Stage chunks for the queue orders; returns what a task would tell of it."""
    for number, chunk in enumerate(chunks):
        assert await queue.sink.stage(app, version, name, number, chunk, queue="orders") == len(
            chunk
        )
    return Stage(stage=name, chunks=len(chunks), rows=sum(map(len, chunks)))


async def commit(
    queue: Broker, *stages: Stage, version: int | None = 0, app: str = APP
) -> Published:
    return await queue.sink.commit(app, version, stages)


def published(count: int) -> Published:
    return Published(duplicate=False, rows=count)


DUPLICATE = Published(duplicate=True, rows=0)


async def kept(queue: Broker, name: str = "orders", partition: str = "Default") -> list[Message]:
    """All messages of a partition, in order."""
    found: list[Message] = []
    while delivery := await queue.pop(
        name, partition=partition, group="all", batch=10_000, auto_ack=True
    ):
        found += delivery.messages
    return found


async def payloads(queue: Broker, name: str = "orders", partition: str = "Default") -> list[bytes]:
    return [message.payload for message in await kept(queue, name, partition)]


async def left(store: Store) -> dict[str, int]:
    """How many entries there are of what is kept for a sink until it is published."""
    spaces = ("sink.stages", "sink.chunks", "sink.decisions")
    found = {space: len(await store.list_entries(space, limit=1000)) for space in spaces}
    return {space: count for space, count in found.items() if count}


class _FailingStore:
    """A store that goes away after some commits, or loses the answer of one."""

    commits = 1 << 40
    """How many are left."""
    loses = False
    """Whether the last of them is written, and nobody hears of it."""
    most_partitions = 0
    most_messages = 0
    """What one commit has appended to, and how much, at most."""

    async def commit(self, changes: Sequence[Change]) -> Commit:
        appends = [append for change in changes for append in change.appends]
        messages = sum(len(append.columns.payloads) for append in appends)
        self.most_partitions = max(self.most_partitions, len(appends))
        self.most_messages = max(self.most_messages, messages)
        self.commits -= 1
        if self.commits < 0:
            raise Unavailable("the store has gone away")
        done: Commit = await super().commit(changes)  # type: ignore[misc]
        if self.loses and not self.commits:
            raise OutcomeUnknown("the answer was lost")
        return done


class FailingMemoryStore(_FailingStore, MemoryStore):
    pass


class FailingRocksStore(_FailingStore, RocksStore):
    pass


class FailingPostgresStore(_FailingStore, PostgresStore):
    pass


class FailingStores:
    """The same store, opened again after it went away."""

    def __init__(self, kind: str, path: Path, clock: Clock) -> None:
        self._kind = kind
        self._path = path
        self._clock = clock
        self._memory = FailingMemoryStore(clock=clock)
        self._url = databases().empty() if kind == "postgres" else ""

    def open(self) -> FailingMemoryStore | FailingRocksStore | FailingPostgresStore:
        match self._kind:
            case "memory":
                self._memory.commits, self._memory.loses = 1 << 40, False
                return self._memory
            case "rocksdb":
                return FailingRocksStore(self._path, clock=self._clock)
            case _:
                return FailingPostgresStore(self._url, clock=self._clock)

    @asynccontextmanager
    async def run(
        self, limits: Limits = IN_STEPS
    ) -> AsyncIterator[
        tuple[Broker, FailingMemoryStore | FailingRocksStore | FailingPostgresStore]
    ]:
        store = self.open()
        async with make_broker(store, limits=limits) as queue:
            yield queue, store
