"""Writes the result of a round: at most one statement for each kind of row."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from skep.model.name import Offset
from skep.model.segment import Segment
from skep.model.trace import TraceEvent
from skep.store.commit.evaluation import CommitRound
from skep.store.postgres import rows
from skep.store.postgres.commit.snapshot import CommitSnapshot
from skep.store.postgres.driver_errors import Raced
from skep.store.postgres.nul_text import hash_of, to_text
from skep.store.postgres.sql import QUERIES

_STEP = 10_000
"""Rows of one statement: all of its parameters are in memory at once."""


async def write(
    connection: asyncpg.Connection,
    round_: CommitRound,
    segments: list[Segment],
    known: CommitSnapshot,
) -> None:
    if segments:
        await copy_segments(connection, segments)
    if any(round_.transactions.values()):
        await _put_transaction_ids(connection, round_, known)
    if round_.consumers:
        await _put_consumers(connection, round_, known)
    if round_.removed or round_.replaced or round_.dead_letters:
        await _put_letters(connection, round_)
    if round_.traces:
        await put_events(connection, round_.traces)
    made = [rows.from_recorded(name, each) for name, each in round_.recorded.items()]
    await put(connection, "put_outcomes", made)
    if round_.entries:
        await _put_entries(connection, round_, known)
    if round_.outbox:
        await connection.execute(QUERIES["delete_outbox"], sorted(round_.outbox))


async def put(connection: asyncpg.Connection, name: str, values: Sequence[Sequence[Any]]) -> None:
    """Execute a statement with rows as arrays of columns; do nothing if there are none."""
    if values:
        columns = [list(column) for column in zip(*values, strict=True)]
        await connection.execute(QUERIES[name], *columns)


async def copy_segments(connection: asyncpg.Connection, segments: list[Segment]) -> None:
    # A row holds arrays, and nested arrays of PostgreSQL must be rectangular. COPY takes them as
    # they are, and was the fastest of all that was measured.
    await connection.copy_records_to_table(
        "segment",
        schema_name="queen",
        columns=rows.SEGMENT_COLUMNS,
        records=map(rows.from_segment, segments),
    )


async def _put_transaction_ids(
    connection: asyncpg.Connection, round_: CommitRound, known: CommitSnapshot
) -> None:
    hashes = known.needs.hashes
    # In the order of the index, so that each of its pages is written once.
    made = sorted(
        (partition, hashes[partition][chosen], offset)
        for partition, ids in round_.transactions.items()
        for chosen, offset in ids.items()
    )
    if known.needs.replays:
        await put(connection, "put_transaction_ids", made)
    else:
        await copy_ids(connection, made)


async def copy_ids(
    connection: asyncpg.Connection, made: Sequence[tuple[int, bytes, Offset]]
) -> None:
    await connection.copy_records_to_table(
        "transaction_id",
        schema_name="queen",
        columns=("partition", "hash", "at_offset"),
        records=made,
    )


async def _put_consumers(
    connection: asyncpg.Connection, round_: CommitRound, known: CommitSnapshot
) -> None:
    old, replaced, new = [], [], []
    for (queue, partition, group), state in sorted(round_.consumers.items()):
        subscription = known.subscriptions[queue, group].id
        row = queue, group, partition, subscription, *rows.from_consumer(state)
        before = known.consumers.get((queue, partition, group))
        if before is None:
            new.append(row)
        else:
            old.append((queue, group, partition, subscription, *before.revision))
            replaced.append(row)
    if old:
        columns = [list(column) for column in zip(*old, strict=True)]
        matched = await connection.fetchval(QUERIES["replace_consumers"], *columns, replaced)
        if matched != len(old):
            raise Raced("a consumer's state was replaced by another server")
    await insert_consumers(connection, new)


async def insert_consumers(connection: asyncpg.Connection, new: Sequence[Sequence[Any]]) -> None:
    """Insert first states; raises ``Raced`` if another server has just inserted one."""
    if not new:
        return
    places = [f"{queue}/{partition}/{group}" for queue, group, partition, *_ in new]
    await connection.fetch(QUERIES["lock_first_consumers"], places)
    for start in range(0, len(new), _STEP):
        step = list(new[start : start + _STEP])
        if len(await connection.fetch(QUERIES["insert_consumers"], step)) != len(step):
            raise Raced("a consumer's row was inserted by another server")


async def _put_letters(connection: asyncpg.Connection, round_: CommitRound) -> None:
    deleted = {*round_.removed, *round_.replaced}
    await put(connection, "delete_dead_letters", sorted(deleted))
    made = [rows.from_letter(letter) for letter in round_.dead_letters.values()]
    await put(connection, "put_dead_letters", made)


async def put_events(connection: asyncpg.Connection, events: Sequence[TraceEvent]) -> None:
    # One row per statement, sent together: their names are arrays of different lengths.
    await connection.executemany(QUERIES["put_trace_event"], list(map(rows.from_event, events)))
    named = [
        (to_text(name), event.number, event.partition, event.offset, event.created_at)
        for event in events
        for name in dict.fromkeys(event.names)
    ]
    await put(connection, "put_trace_names", named)


async def _put_entries(
    connection: asyncpg.Connection, round_: CommitRound, known: CommitSnapshot
) -> None:
    deleted: list[tuple[str, bytes]] = []
    kept: list[tuple[Any, ...]] = []
    new: list[tuple[Any, ...]] = []
    absent = known.needs.entries.difference(known.entries)
    for place, entry in round_.entries.items():
        if entry is None:
            deleted.append((place[0], hash_of(place[1])))
        else:
            (new if place in absent else kept).append(rows.from_entry(entry))
    await put(connection, "delete_entries", sorted(deleted))
    await put(connection, "put_entries", kept)
    await _insert_entries(connection, new)


async def _insert_entries(connection: asyncpg.Connection, new: Sequence[Sequence[Any]]) -> None:
    """Insert new entries; raises ``Raced`` if one exists, which could not be locked before."""
    if new:
        columns = [list(column) for column in zip(*new, strict=True)]
        inserted = await connection.fetch(QUERIES["insert_entries"], *columns)
        if len(inserted) != len(new):
            raise Raced("an entry was inserted by another server")
