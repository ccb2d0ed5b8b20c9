"""Rows of queues that do not exist and that nobody deleted: what a partial restore leaves behind.

A deleted queue is listed in ``queue_removal`` in the same transaction, and only what is listed is
removed. The rest may be all that is left of messages that were answered, so it stays. A server does
not start on more than a few of them: producers would fill queues of the same names anew.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import asyncpg

from skep.errors import Corrupted
from skep.store.postgres.sql import QUERIES

SHARE = 0.01
"""The share of all segments up to which a server starts nevertheless."""
MOST = 10_000
"""Rows of a kind that are counted in a queue at most. As many segments are always too many."""

_log = logging.getLogger("skep.store")


class Ownerless(NamedTuple):
    """What a queue that does not exist holds; each number up to ``MOST`` rows."""

    queue: int
    partitions: int
    segments: int
    messages: int
    bytes: int


async def find_ownerless(connection: asyncpg.Connection) -> list[Ownerless]:
    numbers = [queue for (queue,) in await connection.fetch(QUERIES["ownerless_queues"])]
    if not numbers:
        return []
    found = await connection.fetch(QUERIES["measure_ownerless"], numbers, MOST)
    return [Ownerless(*row) for row in found]


async def discard_ownerless(connection: asyncpg.Connection, queues: Sequence[int]) -> None:
    """List the queues as deleted; their rows are removed like those of any deleted queue."""
    await connection.execute(QUERIES["discard_ownerless"], list(queues))


async def check_ownerless(connection: asyncpg.Connection) -> None:
    """Raise ``Corrupted`` if more than a small share of the segments has no queue."""
    found = await find_ownerless(connection)
    if not found:
        return
    if await _is_too_much(connection, sum(each.segments for each in found)):
        raise Corrupted(
            f"{_words(found)}. Nothing was changed. A restore was probably partial: restore all of "
            "the schema queen, or discard them for good with skep orphan discard"
        )
    _log.warning("%s; they stay until you call skep orphan discard", _words(found))


async def _is_too_much(connection: asyncpg.Connection, segments: int) -> bool:
    if segments >= MOST:
        return True
    enough = int(segments / SHARE)
    total: int = await connection.fetchval(QUERIES["count_segments"], enough)
    return total < enough


def _words(found: Sequence[Ownerless]) -> str:
    segments = sum(each.segments for each in found)
    more = " or more" if any(each.segments == MOST for each in found) else ""
    numbers = ", ".join(str(each.queue) for each in found[:10])
    rest = f" and {len(found) - 10} more" if len(found) > 10 else ""
    return (
        f"PostgreSQL holds {segments}{more} segments with {sum(each.messages for each in found)} "
        f"messages ({sum(each.bytes for each in found)} bytes) of {len(found)} queues that do not "
        f"exist (numbers {numbers}{rest})"
    )
