"""Queues of rows in PostgreSQL, driven directly: SQL over 32 connections, nothing in between."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import asyncpg

from benchmarks.payloads import ORDERS

CONNECTIONS = 32
_HERE = Path(__file__).parent
_SEED_PUSH = """
INSERT INTO queen.messages (transaction_id, partition_id, payload)
SELECT t, $2, p::jsonb FROM unnest($1::text[], $3::text[]) AS a (t, p)"""
_SEED_LEASE = """
UPDATE queen.partition_consumers
   SET lease_acquired_at = now(), lease_expires_at = now() + interval '300 s', batch_size = 100,
       worker_id = $2
 WHERE partition_id = $1 AND consumer_group = $3
   AND (lease_expires_at IS NULL OR lease_expires_at <= now())
RETURNING last_consumed_created_at, last_consumed_id"""
_SEED_READ = """
SELECT id, created_at, payload FROM queen.messages
 WHERE partition_id = $1 AND ($2::timestamptz IS NULL OR (created_at, id) > ($2, $3))
 ORDER BY created_at, id LIMIT 100"""
_SEED_ACK = """
UPDATE queen.partition_consumers
   SET last_consumed_created_at = $3, last_consumed_id = $4, last_consumed_at = now(),
       total_messages_consumed = total_messages_consumed + $5,
       total_batches_consumed = total_batches_consumed + 1,
       pending_estimate = greatest(0, pending_estimate - $5), last_stats_update = now(),
       lease_expires_at = NULL, batch_size = 0
 WHERE partition_id = $1 AND consumer_group = $6 AND worker_id = $2"""
_LEAN_PUSH = "INSERT INTO message (payload) SELECT p::jsonb FROM unnest($1::text[]) AS p"
_LEAN_POP = """
DELETE FROM message WHERE id = ANY (ARRAY(
    SELECT id FROM message ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED))
RETURNING id, payload"""


def _next(payloads: list[str], turn: int, size: int) -> list[str]:
    return [payloads[(turn * size + number) % len(payloads)] for number in range(size)]


class Seed:
    """The schema of the documents, with its triggers."""

    schema = "seed.sql"

    def __init__(self, groups: int = 1) -> None:
        self._groups = [f"bench{number}" for number in range(groups)]

    async def prepare(self, connection: asyncpg.Connection, partitions: int) -> None:
        queue = await connection.fetchval(
            "INSERT INTO queen.queues (name) VALUES ('orders') RETURNING id"
        )
        made = await connection.fetch(
            "INSERT INTO queen.partitions (queue_id, name)"
            " SELECT $1, 'p' || n FROM generate_series(1, $2::integer) AS n RETURNING id",
            queue,
            partitions,
        )
        self._partitions = [row[0] for row in made]
        await connection.execute(
            "INSERT INTO queen.partition_consumers (partition_id, consumer_group)"
            " SELECT id, g FROM queen.partitions, unnest($1::text[]) AS g",
            self._groups,
        )

    async def push(self, connection: asyncpg.Connection, turn: int, payloads: list[str]) -> int:
        ids = [str(uuid4()) for _ in payloads]
        partition = self._partitions[turn % len(self._partitions)]
        await connection.execute(_SEED_PUSH, ids, partition, payloads)
        return len(payloads)

    async def consume(self, connection: asyncpg.Connection, turn: int) -> int:
        group = self._groups[turn % len(self._groups)]
        partition = self._partitions[turn // len(self._groups) % len(self._partitions)]
        worker = str(uuid4())
        leased = await connection.fetchrow(_SEED_LEASE, partition, worker, group)
        if leased is None:
            return 0
        found = await connection.fetch(_SEED_READ, partition, leased[0], leased[1])
        if found:
            last = found[-1]
            done = (partition, worker, last["created_at"], last["id"], len(found), group)
            await connection.execute(_SEED_ACK, *done)
        return len(found)


class Lean:
    """One table and SKIP LOCKED."""

    schema = "lean.sql"

    async def prepare(self, connection: asyncpg.Connection, partitions: int) -> None:
        """It has none."""

    async def push(self, connection: asyncpg.Connection, turn: int, payloads: list[str]) -> int:
        await connection.execute(_LEAN_PUSH, payloads)
        return len(payloads)

    async def consume(self, connection: asyncpg.Connection, turn: int) -> int:
        return len(await connection.fetch(_LEAN_POP))


class Rows:
    """One of them on a database of its own."""

    def __init__(self, url: str, kind: Seed | Lean) -> None:
        self.url = url
        self._kind = kind

    async def prepare(self, partitions: int) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute((_HERE / self._kind.schema).read_text())
        await self._kind.prepare(connection, partitions)
        await connection.close()

    async def pushed(self, size: int, seconds: float, *, payloads: list[str] = ORDERS) -> float:
        """Messages per second in pushes of ``size``."""

        async def push(connection: asyncpg.Connection, turn: int) -> int:
            return await self._kind.push(connection, turn, _next(payloads, turn, size))

        return await self._drive(push, seconds)

    async def consumed(self, seconds: float) -> float:
        return await self._drive(self._kind.consume, seconds)

    async def _drive(
        self, work: Callable[[asyncpg.Connection, int], Awaitable[int]], seconds: float
    ) -> float:
        connections = [await asyncpg.connect(self.url) for _ in range(CONNECTIONS)]
        for number, connection in enumerate(connections):
            # The first time it asks what an array is, which takes longer than a thousand pushes.
            await work(connection, number)
        begin = last = time.perf_counter()
        done = 0

        async def one(number: int) -> None:
            nonlocal done, last
            turn = number
            while time.perf_counter() - begin < seconds:
                count = await work(connections[number], turn)
                if count:
                    done += count
                    last = time.perf_counter()
                turn += CONNECTIONS

        await asyncio.gather(*map(one, range(CONNECTIONS)))
        # Who finds nothing more is not slower for it.
        rate = done / (last - begin)
        for connection in connections:
            await connection.close()
        return rate
