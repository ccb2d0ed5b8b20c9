"""Reads and locks what a commit needs: at most one statement for each kind of row."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import asyncpg

from skep.errors import Corrupted
from skep.model.change import Change, EntryVersion
from skep.model.name import MAX_NUMBER
from skep.model.queue import Partition
from skep.store.postgres import rows
from skep.store.postgres.commit.needs import Needs
from skep.store.postgres.commit.snapshot import CommitSnapshot
from skep.store.postgres.lane import Lane
from skep.store.postgres.nul_text import from_text, hash_of, to_text
from skep.store.postgres.sql import QUERIES


async def read_snapshot(
    connection: asyncpg.Connection, changes: Sequence[Change], lane: Lane
) -> CommitSnapshot:
    needs = Needs(changes)
    snapshot = CommitSnapshot(needs)
    if needs.partitions:
        await _lock_partitions(connection, snapshot, lane)
    if needs.places:
        await _read_consumers(connection, snapshot)
    if any(needs.hashes.values()):
        await _find_transaction_ids(connection, snapshot)
    if needs.messages:
        await _read_segments(connection, snapshot)
    await _read_the_rest(connection, snapshot)
    if needs.numbers:
        # Each change that meets damage makes ``evaluate`` start over with fresh numbers.
        attempts = len(changes) + 1 if snapshot.damaged else 1
        snapshot.numbers = await _take_numbers(connection, needs.numbers * attempts)
    snapshot.now = snapshot.now or await connection.fetchval(QUERIES["now"])
    return snapshot


async def _read_the_rest(connection: asyncpg.Connection, snapshot: CommitSnapshot) -> None:
    """Read what changes carry besides messages and cursors."""
    needs = snapshot.needs
    if needs.letters or needs.given_up:
        await _lock_letters(connection, snapshot)
    if needs.keys:
        await _find_outcomes(connection, snapshot)
    if needs.outbox:
        await _lock_outbox(connection, snapshot)
    if needs.based_on:
        await _read_entries(connection, snapshot)
    if needs.entries:
        await _lock_entries(connection, snapshot)
    await _read_queues(connection, snapshot)


async def _lock_partitions(
    connection: asyncpg.Connection, snapshot: CommitSnapshot, lane: Lane
) -> None:
    numbers = _in_range(snapshot.needs.partitions)
    entries = sorted(snapshot.needs.based_on)
    arguments = numbers, [at.space for at in entries], [hash_of(at.key) for at in entries]
    statement = QUERIES["lock_partitions"]
    locked = await connection.fetch(statement, lane.number, lane.owner, *arguments)
    if not locked:
        # Another server has taken our lane over, or its row was deleted.
        await lane.take(connection)
        locked = await connection.fetch(statement, lane.number, lane.owner, *arguments)
    _add_entries(snapshot, entries, locked[0]["entry_versions"])
    for row in await connection.fetch(QUERIES["locked_partitions"], lane.number, numbers):
        snapshot.now = max(snapshot.now, row["now"])
        partition = rows.to_partition(row)
        snapshot.partitions[partition.queue, partition.number] = partition
        snapshot.heads[partition.queue] = row["head"]
        snapshot.queue_versions[partition.queue] = row["queue_version"]
    await lane.renew(connection)


async def _read_consumers(connection: asyncpg.Connection, snapshot: CommitSnapshot) -> None:
    places = sorted(place for place in snapshot.needs.places if place[2] <= MAX_NUMBER)
    for row in await connection.fetch(QUERIES["read_consumers"], *_columns_of(places)):
        queue, group, partition = row["queue"], row["consumer_group"], row["partition"]
        snapshot.now = max(snapshot.now, row["now"])
        if row["subscription"] is not None:
            snapshot.subscriptions[queue, group] = rows.to_subscription(row)
        if row["has_partition"]:
            # ``evaluate`` only asks whether it exists.
            existing = Partition(number=partition, queue=queue, name="", created_at=0)
            snapshot.partitions.setdefault((queue, partition), existing)
        if row["version"] is not None:
            snapshot.consumers[queue, partition, group] = rows.to_consumer(row)
        if row["queue_version"] is not None:
            snapshot.queue_versions[queue] = row["queue_version"]


async def _find_transaction_ids(connection: asyncpg.Connection, snapshot: CommitSnapshot) -> None:
    wanted = sorted(
        (partition, hashed)
        for partition, hashes in snapshot.needs.hashes.items()
        for hashed in hashes.values()
    )
    for row in await connection.fetch(QUERIES["known_transaction_ids"], *_columns_of(wanted)):
        snapshot.offsets[row["partition"], row["hash"]] = row["at_offset"]


async def _read_segments(connection: asyncpg.Connection, snapshot: CommitSnapshot) -> None:
    messages = _columns_of(sorted(snapshot.needs.messages))
    for row in await connection.fetch(QUERIES["segments_holding"], *messages):
        partition, start = row["partition"], row["start_offset"]
        try:
            snapshot.segments.setdefault(partition, []).append(rows.to_segment(row))
        except Corrupted as error:
            end = start + row["messages"]
            snapshot.damaged.setdefault(partition, []).append((start, end, error))


async def _lock_letters(connection: asyncpg.Connection, snapshot: CommitSnapshot) -> None:
    needs = snapshot.needs
    if needs.letters:
        numbers = _columns_of(sorted(needs.letters))
        for row in await connection.fetch(QUERIES["lock_dead_letters"], *numbers):
            letter = rows.to_letter(row)
            snapshot.dead_letters[letter.queue, letter.number] = letter
    if needs.given_up:
        messages = _columns_of(sorted(needs.given_up))
        for row in await connection.fetch(QUERIES["letters_of_messages"], *messages):
            message = row["partition"], row["at_offset"], row["consumer_group"]
            snapshot.letters_of[message] = row["number"]


async def _find_outcomes(connection: asyncpg.Connection, snapshot: CommitSnapshot) -> None:
    keys = [to_text(key) for key in snapshot.needs.keys]
    for row in await connection.fetch(QUERIES["recorded_outcomes"], keys):
        snapshot.outcomes[from_text(row["name"])] = rows.to_recorded(row)


async def _lock_outbox(connection: asyncpg.Connection, snapshot: CommitSnapshot) -> None:
    numbers = _in_range(snapshot.needs.outbox)
    locked = await connection.fetch(QUERIES["lock_outbox"], numbers)
    snapshot.outbox = {row["number"] for row in locked}


async def _read_entries(connection: asyncpg.Connection, snapshot: CommitSnapshot) -> None:
    """Read the entries that changes are based on, unless they came with the partitions.

    Those that exist are locked and read again, so that they do not change before the commit.
    """
    entries = sorted(snapshot.needs.based_on)
    if not snapshot.needs.partitions:
        arguments = [at.space for at in entries], [hash_of(at.key) for at in entries]
        versions = await connection.fetch(QUERIES["entry_versions"], *arguments)
        _add_entries(snapshot, entries, [row["version"] for row in versions])
    by_hash = {
        (at.space, hash_of(at.key)): (at.space, at.key)
        for at in entries
        if (at.space, at.key) in snapshot.entries
    }
    if by_hash:
        for place in by_hash.values():
            del snapshot.entries[place]
        for row in await connection.fetch(QUERIES["share_entries"], *_columns_of(sorted(by_hash))):
            snapshot.entries[by_hash[row["space"], row["hash"]]] = row["version"]


def _add_entries(
    snapshot: CommitSnapshot, entries: Sequence[EntryVersion], versions: Sequence[int]
) -> None:
    snapshot.entries |= {
        (at.space, at.key): version
        for at, version in zip(entries, versions, strict=True)
        if version
    }


async def _read_queues(connection: asyncpg.Connection, snapshot: CommitSnapshot) -> None:
    """Read configuration versions that did not come with partitions, and message totals."""
    if queues := snapshot.needs.queues.difference(snapshot.queue_versions):
        for row in await connection.fetch(QUERIES["queue_versions"], _in_range(queues)):
            snapshot.queue_versions[row["number"]] = row["version"]
    if snapshot.needs.capacity:
        limited = _in_range(snapshot.needs.capacity)
        await connection.fetch(QUERIES["lock_queues"], limited)
        for row in await connection.fetch(QUERIES["pushed"], limited):
            snapshot.totals[row["queue"]] = row["messages"]


async def _lock_entries(connection: asyncpg.Connection, snapshot: CommitSnapshot) -> None:
    by_hash = {(space, hash_of(key)): (space, key) for space, key in snapshot.needs.entries}
    places = _columns_of(sorted(by_hash))
    for row in await connection.fetch(QUERIES["lock_entries"], *places):
        snapshot.entries[by_hash[row["space"], row["hash"]]] = row["version"]


async def _take_numbers(connection: asyncpg.Connection, count: int) -> Iterator[int]:
    numbers = await connection.fetch(QUERIES["next_numbers"], count)
    return iter([row["number"] for row in numbers])


def _in_range(numbers: Iterable[int]) -> list[int]:
    return [number for number in numbers if number <= MAX_NUMBER]


def _columns_of(values: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The arrays that a statement unnests into these rows."""
    return [list(column) for column in zip(*values, strict=True)]
