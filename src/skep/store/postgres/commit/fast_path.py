"""Small commits in one round trip, while no other server changes the same rows.

A push needs the ends of its partitions and of its lane; a pop or an ack needs the state that it
replaces. The server that wrote them last still has them. So a commit of nothing else is evaluated
against recent states in memory, and written by one statement that fails unless they are current.
If it fails, nothing was written, and the commit reads and locks what it needs instead.
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
    outcome_unknown_from,
    unavailable_from,
    was_not_sent,
)
from skep.store.postgres.lane import Lane
from skep.store.postgres.nul_text import hash_of
from skep.store.postgres.sql import QUERIES

K = TypeVar("K")
V = TypeVar("V")

KEPT = 10_000
"""Partitions, states and subscriptions that are kept, each: those written last."""
SMALL = 5000
"""Messages up to which fewer round trips save more time than COPY does."""

_STATES_CHANGED = asyncpg.DivisionByZeroError
"""What ``commit_at_once`` raises if a recent state is not current.

PostgreSQL has no expression that raises an error, and a function that does would need a migration
and a call on every commit. The statement divides by zero instead; nothing else in it divides.
"""


class LastWritten(Generic[K, V]):
    """The ``KEPT`` values that were written last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[K, V] = OrderedDict()
        self.get = self._kept.get
        self.clear = self._kept.clear

    def put(self, values: Iterable[tuple[K, V]]) -> None:
        for key, value in values:
            self._kept[key] = value
            self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


class RecentStates:
    """What this server committed last, and what later commits can be evaluated against."""

    def __init__(self) -> None:
        self._partitions = LastWritten[int, Partition]()
        self._consumers = LastWritten[tuple[int, int, str], ConsumerState]()
        self._subscriptions = LastWritten[tuple[int, str], Subscription]()
        self._heads: dict[int, int] = {}

    def keep(
        self, round_: CommitRound, subscriptions: Mapping[tuple[int, str], Subscription]
    ) -> None:
        self._partitions.put((partition.number, partition) for partition in round_.partitions())
        self._consumers.put(round_.consumers.items())
        self._subscriptions.put(subscriptions.items())
        self._heads |= round_.heads

    def forget(self) -> None:
        self._partitions.clear()
        self._consumers.clear()
        self._subscriptions.clear()
        self._heads.clear()

    def snapshot(self, changes: Sequence[Change]) -> CommitSnapshot | None:
        """What the changes need; None if they are not small and plain, or a state is missing."""
        if not all(map(_is_plain, changes)):
            return None
        snapshot = CommitSnapshot(Needs(changes))
        messages = 0
        for change in changes:
            # The statement checks whether these are current.
            snapshot.queue_versions |= change.queues
            for append in change.appends:
                messages += len(append.columns)
                if not self._add_end(snapshot, append):
                    return None
            for update in change.consumers:
                if not self._add_state(snapshot, update):
                    return None
        return snapshot if messages <= SMALL and (messages or snapshot.consumers) else None

    def _add_end(self, snapshot: CommitSnapshot, append: Append) -> bool:
        """Add the ends of a partition and of its lane; False if they are not kept."""
        partition = self._partitions.get(append.partition)
        if partition is None or partition.queue not in self._heads:
            return False
        snapshot.partitions[partition.queue, partition.number] = partition
        snapshot.heads[partition.queue] = self._heads[partition.queue]
        return True

    def _add_state(self, snapshot: CommitSnapshot, update: ConsumerUpdate) -> bool:
        """Add a consumer's state and subscription; False if they are not kept."""
        place, group = (update.queue, update.partition, update.group), (update.queue, update.group)
        state, subscription = self._consumers.get(place), self._subscriptions.get(group)
        if state is None or subscription is None:
            return False
        snapshot.consumers[place] = state
        snapshot.subscriptions[group] = subscription
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
    recent: CommitSnapshot,
    lane: Lane,
    effects: bytes,
) -> int | None:
    """Write the round and publish its effects, if the recent states are current.

    Returns the number of the event; None if nothing was written.
    """
    arguments = (
        *_appended(round_, segments, recent),
        *_moved(round_, recent),
        *_based_on(recent),
        effects,
    )
    try:
        number: int = await connection.fetchval(
            QUERIES["commit_at_once"], lane.number, lane.owner, *arguments
        )
    except (*RACES, _STATES_CHANGED):
        return None
    except asyncpg.PostgresConnectionError as error:
        connection.terminate()
        raise outcome_unknown_from(error) from error
    except asyncpg.PostgresError as error:
        # The server answered with an error, so it has not committed.
        if isinstance(error, LOST):
            connection.terminate()
        raise unavailable_from(error) from error
    except LOST as error:
        connection.terminate()
        if was_not_sent(error):
            return None
        raise outcome_unknown_from(error) from error
    except BaseException:
        connection.terminate()
        raise
    return number


def _appended(
    round_: CommitRound, segments: list[Segment], recent: CommitSnapshot
) -> tuple[list[Any], ...]:
    """The parameters for pushes: partitions and heads before the commit, and new segments."""
    before = [
        recent.partitions[partition.queue, partition.number]
        for partition in sorted(round_.partitions(), key=lambda partition: partition.number)
    ]
    return (
        [partition.number for partition in before],
        [partition.queue for partition in before],
        [partition.end for partition in before],
        list(round_.heads),
        [recent.heads[queue] for queue in round_.heads],
        [rows.from_segment(segment) for segment in segments],
    )


def _moved(round_: CommitRound, recent: CommitSnapshot) -> tuple[list[Any], ...]:
    """The parameters for pops and acks: revisions of the states before the commit, the leases
    that must be live, the subscriptions, and the new states."""
    replaced = sorted(round_.consumers.items())
    ids = [recent.subscriptions[queue, group].id for (queue, _, group), _ in replaced]
    groups = {
        (queue, group): id_ for ((queue, _, group), _), id_ in zip(replaced, ids, strict=True)
    }
    return (
        [queue for (queue, _, _), _ in replaced],
        [group for (_, _, group), _ in replaced],
        [partition for (_, partition, _), _ in replaced],
        ids,
        [recent.consumers[place].version for place, _ in replaced],
        [recent.consumers[place].token for place, _ in replaced],
        [round_.leases.get(place) for place, _ in replaced],
        [queue for queue, _ in groups],
        [group for _, group in groups],
        list(groups.values()),
        [
            (queue, group, partition, id_, *rows.from_consumer(state))
            for ((queue, partition, group), state), id_ in zip(replaced, ids, strict=True)
        ],
    )


def _based_on(recent: CommitSnapshot) -> tuple[list[Any], ...]:
    """The parameters for configurations that must be current, and entries that must not exist."""
    absent = recent.needs.based_on
    return (
        list(recent.queue_versions),
        list(recent.queue_versions.values()),
        [at.space for at in absent],
        [hash_of(at.key) for at in absent],
    )
