"""Small pushes in one round trip, as long as nothing has changed since our own last commit.

What a push must know is where its partitions end and where its lane stands, and the server that
wrote last knows it. So a round of nothing but small pushes is judged by memory, and written by
one statement that refuses to do anything unless memory was right. If it was not, nothing has
happened, and the round goes the long way, under locks.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import asyncpg

from skep.model.change import Change
from skep.model.queue import Partition
from skep.model.segment import Segment
from skep.store.postgres import rows
from skep.store.postgres.failing import LOST, RACES, not_written, perhaps_written
from skep.store.postgres.known import Known
from skep.store.postgres.lane import Lane
from skep.store.postgres.needs import Needs
from skep.store.postgres.sql import QUERIES
from skep.store.round import Round

KEPT = 10_000
"""Partitions written last: those that are pushed to all the time."""
SMALL = 5000
"""Messages up to which the round trips saved are worth more than what COPY saves."""


class Recent:
    def __init__(self) -> None:
        self._partitions: OrderedDict[int, Partition] = OrderedDict()
        self._heads: dict[int, int] = {}

    def learn(self, partitions: Iterable[Partition], heads: dict[int, int]) -> None:
        """Keep what has just been committed."""
        for partition in partitions:
            self._partitions[partition.number] = partition
            self._partitions.move_to_end(partition.number)
        while len(self._partitions) > KEPT:
            self._partitions.popitem(last=False)
        self._heads |= heads

    def forget(self) -> None:
        self._partitions.clear()
        self._heads.clear()

    def known(self, changes: Sequence[Change]) -> Known | None:
        """What is needed to judge the changes, if they are small pushes and all of it is kept."""
        if not all(map(_is_push, changes)):
            return None
        known = Known(Needs(changes))
        messages = 0
        for change in changes:
            for append in change.appends:
                messages += len(append.columns)
                partition = self._partitions.get(append.partition)
                if partition is None or partition.queue not in self._heads:
                    return None
                known.partitions[partition.queue, partition.number] = partition
                known.heads[partition.queue] = self._heads[partition.queue]
        return known if 0 < messages <= SMALL else None


def _is_push(change: Change) -> bool:
    return not (
        change.consumers
        or change.dead_letters
        or change.removals
        or change.traces
        or change.entries
        or change.outbox
        or change.key
        or any(append.columns.transaction_ids is not None for append in change.appends)
    )


async def append(
    connection: asyncpg.Connection,
    round_: Round,
    segments: list[Segment],
    known: Known,
    lane: Lane,
    told: bytes,
) -> int | None:
    """Append if everything is still as it is known; None, and nothing, if it is not.

    Returns the number of what it told.
    """
    moved = sorted(round_.partitions(), key=lambda partition: partition.number)
    before = [known.partitions[each.queue, each.number] for each in moved]
    try:
        number: int = await connection.fetchval(
            QUERIES["append_at_once"],
            lane.number,
            lane.owner,
            [each.number for each in moved],
            [each.queue for each in moved],
            [each.start for each in before],
            [each.end for each in before],
            [each.end for each in moved],
            [each.first_at for each in moved],
            [each.newest_at for each in moved],
            list(round_.heads),
            [known.heads[queue] for queue in round_.heads],
            list(round_.heads.values()),
            [rows.from_segment(segment) for segment in segments],
            told,
        )
    except (*RACES, asyncpg.DivisionByZeroError):
        return None
    except asyncpg.PostgresConnectionError as error:
        connection.terminate()
        raise perhaps_written(error) from error
    except asyncpg.PostgresError as error:
        # The server itself said no, so it has not committed.
        if isinstance(error, LOST):
            connection.terminate()
        raise not_written(error) from error
    except LOST as error:
        connection.terminate()
        raise perhaps_written(error) from error
    except BaseException:
        connection.terminate()
        raise
    return number
