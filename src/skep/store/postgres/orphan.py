"""Rows of queues that do not exist and were not deleted, as after a partial restore.

A deleted queue is listed in ``queue_removal`` in the same transaction, and only listed rows are
purged. Other rows may be all that is left of acknowledged messages, so they stay. A server does not
start with more than a few of them: producers would create new queues of the same names.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import asyncpg

from skep.errors import Corrupted
from skep.store.postgres.sql import QUERIES

SHARE = 0.01
"""The share of all segments up to which a server starts with a warning."""
MOST = 10_000
"""Rows of a kind that are counted per queue at most. That many segments are always too many."""

_log = logging.getLogger("skep.store")


class OrphanQueue(NamedTuple):
    """The rows of a queue that does not exist; counted up to ``MOST`` of each kind."""

    queue: int
    partitions: int
    segments: int
    messages: int
    bytes: int


async def find_orphans(connection: asyncpg.Connection) -> list[OrphanQueue]:
    numbers = [queue for (queue,) in await connection.fetch(QUERIES["orphan_queues"])]
    if not numbers:
        return []
    found = await connection.fetch(QUERIES["measure_orphans"], numbers, MOST)
    return [OrphanQueue(*row) for row in found]


async def discard_orphans(connection: asyncpg.Connection, queues: Sequence[int]) -> None:
    """List the queues as deleted; their rows are purged like those of any deleted queue."""
    await connection.execute(QUERIES["discard_orphans"], list(queues))


async def check_orphans(connection: asyncpg.Connection) -> None:
    """Raise ``Corrupted`` if more than a small share of the segments has no queue."""
    orphans = await find_orphans(connection)
    if not orphans:
        return
    if await _is_too_much(connection, sum(queue.segments for queue in orphans)):
        raise Corrupted(
            f"{_describe(orphans)}. Nothing was changed. A restore was probably partial: restore "
            "all of the schema queen, or discard them for good with skep orphan discard"
        )
    _log.warning(
        "found rows of missing queues, delete them with skep orphan discard: %s", _describe(orphans)
    )


async def _is_too_much(connection: asyncpg.Connection, segments: int) -> bool:
    if segments >= MOST:
        return True
    enough = int(segments / SHARE)
    total: int = await connection.fetchval(QUERIES["count_segments"], enough)
    return total < enough


def _describe(orphans: Sequence[OrphanQueue]) -> str:
    segments = sum(queue.segments for queue in orphans)
    messages = sum(queue.messages for queue in orphans)
    size = sum(queue.bytes for queue in orphans)
    more = " or more" if any(queue.segments == MOST for queue in orphans) else ""
    numbers = ", ".join(str(queue.queue) for queue in orphans[:10])
    rest = f" and {len(orphans) - 10} more" if len(orphans) > 10 else ""
    return (
        f"PostgreSQL holds {segments}{more} segments with {messages} messages ({size} bytes) of "
        f"{len(orphans)} queues that do not exist (numbers {numbers}{rest})"
    )
