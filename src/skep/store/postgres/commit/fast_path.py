"""Small commits in one round trip, as long as nothing has changed since our own last ones.

What a push must know is where its partitions end and where its lane stands, what a pop or an ack
must know is the state that it replaces; and the server that wrote last knows it. So a round of
nothing else is judged by memory, and written by one statement that refuses to do anything unless
memory was right. If it was not, nothing has happened, and the round goes the long way.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import asyncpg

from skep.model.change import Append, Change, ConsumerUpdate
from skep.model.consumer import ConsumerState
from skep.model.queue import Partition, Subscription
from skep.model.segment import Segment
from skep.store.commit.evaluation import CommitRound
from skep.store.postgres import rows
from skep.store.postgres.commit.needs import Needs
from skep.store.postgres.commit.snapshot import CommitSnapshot
from skep.store.postgres.driver_errors import (
    LOST,
    RACES,
    not_written,
    perhaps_written,
    was_not_sent,
)
from skep.store.postgres.lane import Lane
from skep.store.postgres.nul_text import hash_of
from skep.store.postgres.sql import QUERIES

K = TypeVar("K")
V = TypeVar("V")

KEPT = 10_000
"""Partitions and states written last: those that are used all the time."""
SMALL = 5000
"""Messages up to which the round trips saved are worth more than what COPY saves."""


class Lately(Generic[K, V]):
    """The last few that were put."""

    def __init__(self) -> None:
        self._kept: OrderedDict[K, V] = OrderedDict()
        self.get = self._kept.get
        self.clear = self._kept.clear

    def put(self, each: Iterable[tuple[K, V]]) -> None:
        for key, value in each:
            self._kept[key] = value
            self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


class Recent:
    def __init__(self) -> None:
        self._partitions = Lately[int, Partition]()
        self._consumers = Lately[tuple[int, int, str], ConsumerState]()
        self._subscriptions = Lately[tuple[int, str], Subscription]()
        self._heads: dict[int, int] = {}

    def learn(
        self, round_: CommitRound, subscriptions: Mapping[tuple[int, str], Subscription]
    ) -> None:
        """Keep what has just been committed."""
        self._partitions.put((each.number, each) for each in round_.partitions())
        self._consumers.put(round_.consumers.items())
        self._subscriptions.put(subscriptions.items())
        self._heads |= round_.heads

    def forget(self) -> None:
        self._partitions.clear()
        self._consumers.clear()
        self._subscriptions.clear()
        self._heads.clear()

    def known(self, changes: Sequence[Change]) -> CommitSnapshot | None:
        """What is needed to judge the changes, if they are small and all of it is kept."""
        if not all(map(_is_plain, changes)):
            return None
        known = CommitSnapshot(Needs(changes))
        messages = 0
        for change in changes:
            # Whether memory is right about these is for the statement to find out.
            known.queue_versions |= change.queues
            for append in change.appends:
                messages += len(append.columns)
                if not self._knows_end(known, append):
                    return None
            for update in change.consumers:
                if not self._knows_state(known, update):
                    return None
        return known if messages <= SMALL and (messages or known.consumers) else None

    def _knows_end(self, known: CommitSnapshot, append: Append) -> bool:
        partition = self._partitions.get(append.partition)
        if partition is None or partition.queue not in self._heads:
            return False
        known.partitions[partition.queue, partition.number] = partition
        known.heads[partition.queue] = self._heads[partition.queue]
        return True

    def _knows_state(self, known: CommitSnapshot, update: ConsumerUpdate) -> bool:
        place, group = (update.queue, update.partition, update.group), (update.queue, update.group)
        state, subscription = self._consumers.get(place), self._subscriptions.get(group)
        if state is None or subscription is None:
            return False
        known.consumers[place] = state
        known.subscriptions[group] = subscription
        return True


def _is_plain(change: Change) -> bool:
    return not (
        change.dead_letters
        or change.removals
        or change.traces
        or change.entries
        or change.outbox
        or change.key
        or change.capacity
        or any(at.version for at in change.based_on)
        or any(append.columns.transaction_ids is not None for append in change.appends)
    )


async def write_at_once(
    connection: asyncpg.Connection,
    round_: CommitRound,
    segments: list[Segment],
    known: CommitSnapshot,
    lane: Lane,
    told: bytes,
) -> int | None:
    """Write if everything is still as it is known; None, and nothing, if it is not.

    Returns the number of what it told.
    """
    arguments = (
        *_appended(round_, segments, known),
        *_moved(round_, known),
        *_based_on(known),
        told,
    )
    try:
        number: int = await connection.fetchval(
            QUERIES["commit_at_once"], lane.number, lane.owner, *arguments
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
        if was_not_sent(error):
            return None
        raise perhaps_written(error) from error
    except BaseException:
        connection.terminate()
        raise
    return number


def _appended(
    round_: CommitRound, segments: list[Segment], known: CommitSnapshot
) -> tuple[list[Any], ...]:
    """What the statement takes of pushes: partitions and heads as they were, and segments."""
    before = [
        known.partitions[each.queue, each.number]
        for each in sorted(round_.partitions(), key=lambda partition: partition.number)
    ]
    return (
        [each.number for each in before],
        [each.queue for each in before],
        [each.end for each in before],
        list(round_.heads),
        [known.heads[queue] for queue in round_.heads],
        [rows.from_segment(segment) for segment in segments],
    )


def _moved(round_: CommitRound, known: CommitSnapshot) -> tuple[list[Any], ...]:
    """What it takes of pops and acks: states as they were, the leases that must be live, their
    subscriptions, and states as they are."""
    replaced = sorted(round_.consumers.items())
    ids = [known.subscriptions[queue, group].id for (queue, _, group), _ in replaced]
    groups = {
        (queue, group): id_ for ((queue, _, group), _), id_ in zip(replaced, ids, strict=True)
    }
    return (
        [queue for (queue, _, _), _ in replaced],
        [group for (_, _, group), _ in replaced],
        [partition for (_, partition, _), _ in replaced],
        ids,
        [known.consumers[place].version for place, _ in replaced],
        [known.consumers[place].token for place, _ in replaced],
        [round_.leases.get(place) for place, _ in replaced],
        [queue for queue, _ in groups],
        [group for _, group in groups],
        list(groups.values()),
        [
            (queue, group, partition, id_, *rows.from_consumer(state))
            for ((queue, partition, group), state), id_ in zip(replaced, ids, strict=True)
        ],
    )


def _based_on(known: CommitSnapshot) -> tuple[list[Any], ...]:
    """Configurations that must be current, and entries that must not exist."""
    absent = known.needs.based_on
    return (
        list(known.queue_versions),
        list(known.queue_versions.values()),
        [at.space for at in absent],
        [hash_of(at.key) for at in absent],
    )
