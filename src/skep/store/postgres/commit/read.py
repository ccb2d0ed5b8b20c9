"""How a commit reads and locks what it needs: at most one statement for each kind of row."""

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


async def look(
    connection: asyncpg.Connection, changes: Sequence[Change], lane: Lane
) -> CommitSnapshot:
    needs = Needs(changes)
    known = CommitSnapshot(needs)
    if needs.partitions:
        await _lock_partitions(connection, known, lane)
    if needs.places:
        await _look_at_consumers(connection, known)
    if any(needs.hashes.values()):
        await _find_transaction_ids(connection, known)
    if needs.messages:
        await _read_segments(connection, known)
    await _look_beside(connection, known)
    if needs.numbers:
        # A change that meets damage is left out and the others are judged anew: see ``judge``.
        times = len(changes) + 1 if known.damaged else 1
        known.numbers = await _take_numbers(connection, needs.numbers * times)
    known.now = known.now or await connection.fetchval(QUERIES["now"])
    return known


async def _look_beside(connection: asyncpg.Connection, known: CommitSnapshot) -> None:
    """What goes with a change besides messages and cursors."""
    needs = known.needs
    if needs.letters or needs.given_up:
        await _lock_letters(connection, known)
    if needs.keys:
        await _find_outcomes(connection, known)
    if needs.outbox:
        await _lock_outbox(connection, known)
    if needs.based_on:
        await _look_at_entries(connection, known)
    if needs.entries:
        await _lock_entries(connection, known)
    await _look_at_queues(connection, known)


async def _lock_partitions(
    connection: asyncpg.Connection, known: CommitSnapshot, lane: Lane
) -> None:
    asked = _in_range(known.needs.partitions)
    entries = sorted(known.needs.based_on)
    arguments = asked, [at.space for at in entries], [hash_of(at.key) for at in entries]
    statement = QUERIES["lock_partitions"]
    locked = await connection.fetch(statement, lane.number, lane.owner, *arguments)
    if not locked:
        # Another server holds our lane by now, or somebody deleted its row.
        await lane.take(connection)
        locked = await connection.fetch(statement, lane.number, lane.owner, *arguments)
    _note_entries(known, entries, locked[0][1])
    for row in await connection.fetch(QUERIES["locked_partitions"], lane.number, asked):
        known.now = max(known.now, row[9])
        partition = rows.to_partition(row)
        known.partitions[partition.queue, partition.number] = partition
        known.heads[partition.queue] = row[8]
        known.queue_versions[partition.queue] = row[10]
    await lane.renew(connection)


async def _look_at_consumers(connection: asyncpg.Connection, known: CommitSnapshot) -> None:
    asked = sorted(place for place in known.needs.places if place[2] <= MAX_NUMBER)
    for row in await connection.fetch(QUERIES["look_at_consumers"], *_turn(asked)):
        queue, group, partition = row[:3]
        known.now = max(known.now, row[8])
        if row[3] is not None:
            known.subscriptions[queue, group] = rows.to_subscription(
                (queue, group, row[3], *row[4:7])
            )
        if row[7]:
            # All that a round wants to know of it is that it is there.
            there = Partition(number=partition, queue=queue, name="", created_at=0)
            known.partitions.setdefault((queue, partition), there)
        if row[9] is not None:
            known.consumers[queue, partition, group] = rows.to_consumer(row[9:])
        if row[27] is not None:
            known.queue_versions[queue] = row[27]


async def _find_transaction_ids(connection: asyncpg.Connection, known: CommitSnapshot) -> None:
    asked = sorted(
        (partition, each)
        for partition, hashes in known.needs.hashes.items()
        for each in hashes.values()
    )
    for row in await connection.fetch(QUERIES["known_transaction_ids"], *_turn(asked)):
        known.offsets[row[0], row[1]] = row[2]


async def _read_segments(connection: asyncpg.Connection, known: CommitSnapshot) -> None:
    asked = _turn(sorted(known.needs.messages))
    for row in await connection.fetch(QUERIES["segments_holding"], *asked):
        try:
            known.segments.setdefault(row[0], []).append(rows.to_segment(row))
        except Corrupted as error:
            known.damaged.setdefault(row[0], []).append((row[1], row[1] + row[5], error))


async def _lock_letters(connection: asyncpg.Connection, known: CommitSnapshot) -> None:
    needs = known.needs
    if needs.letters:
        asked = _turn(sorted(needs.letters))
        for row in await connection.fetch(QUERIES["lock_dead_letters"], *asked):
            letter = rows.to_letter(row)
            known.dead_letters[letter.queue, letter.number] = letter
    if needs.given_up:
        asked = _turn(sorted(needs.given_up))
        for row in await connection.fetch(QUERIES["letters_of_messages"], *asked):
            known.letters_of[row[0], row[1], row[2]] = row[3]


async def _find_outcomes(connection: asyncpg.Connection, known: CommitSnapshot) -> None:
    keys = [to_text(key) for key in known.needs.keys]
    for row in await connection.fetch(QUERIES["recorded_outcomes"], keys):
        known.outcomes[from_text(row[0])] = rows.to_recorded(row)


async def _lock_outbox(connection: asyncpg.Connection, known: CommitSnapshot) -> None:
    asked = _in_range(known.needs.outbox)
    known.outbox = {row[0] for row in await connection.fetch(QUERIES["lock_outbox"], asked)}


async def _look_at_entries(connection: asyncpg.Connection, known: CommitSnapshot) -> None:
    """Read entries that changes were decided on, unless they came with the partitions.

    Those that exist are locked, and read again: they are not to change before the commit.
    """
    entries = sorted(known.needs.based_on)
    if not known.needs.partitions:
        asked = [at.space for at in entries], [hash_of(at.key) for at in entries]
        found = await connection.fetch(QUERIES["entry_versions"], *asked)
        _note_entries(known, entries, [row[0] for row in found])
    by_hash = {
        (at.space, hash_of(at.key)): (at.space, at.key)
        for at in entries
        if (at.space, at.key) in known.entries
    }
    if by_hash:
        for place in by_hash.values():
            del known.entries[place]
        for row in await connection.fetch(QUERIES["share_entries"], *_turn(sorted(by_hash))):
            known.entries[by_hash[row[0], row[1]]] = row[2]


def _note_entries(
    known: CommitSnapshot, entries: Sequence[EntryVersion], versions: Sequence[int]
) -> None:
    known.entries |= {
        (at.space, at.key): version
        for at, version in zip(entries, versions, strict=True)
        if version
    }


async def _look_at_queues(connection: asyncpg.Connection, known: CommitSnapshot) -> None:
    """Versions of configurations that did not come with partitions; how much was pushed."""
    if queues := known.needs.queues.difference(known.queue_versions):
        for row in await connection.fetch(QUERIES["queue_versions"], _in_range(queues)):
            known.queue_versions[row[0]] = row[1]
    if known.needs.capacity:
        limited = _in_range(known.needs.capacity)
        await connection.fetch(QUERIES["lock_queues"], limited)
        for row in await connection.fetch(QUERIES["pushed"], limited):
            known.totals[row[0]] = row[1]


async def _lock_entries(connection: asyncpg.Connection, known: CommitSnapshot) -> None:
    by_hash = {(space, hash_of(key)): (space, key) for space, key in known.needs.entries}
    asked = _turn(sorted(by_hash))
    for row in await connection.fetch(QUERIES["lock_entries"], *asked):
        known.entries[by_hash[row[0], row[1]]] = row[2]


async def _take_numbers(connection: asyncpg.Connection, count: int) -> Iterator[int]:
    return iter([row[0] for row in await connection.fetch(QUERIES["next_numbers"], count)])


def _in_range(numbers: Iterable[int]) -> list[int]:
    return [number for number in numbers if number <= MAX_NUMBER]


def _turn(asked: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Rows as columns."""
    return [list(column) for column in zip(*asked, strict=True)]
