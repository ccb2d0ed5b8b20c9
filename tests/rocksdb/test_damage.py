"""A damaged store is refused or says so; it never serves other bytes, and never fewer."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from skep import Limits, Verdict
from skep.errors import Corrupted, SkepError
from skep.model.change import Applied, Change, Unreadable
from skep.model.queue import Partition
from skep.store.rocksdb.store import RocksStore
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, make_broker, pop, pop_all
from tests.support.rocksdb_builders import count_numbers, open_store, push_numbers, start
from tests.support.rocksdb_child_process import run_child
from tests.support.rocksdb_files import (
    copy,
    crashed_store,
    flip,
    flip_stored,
    log_of,
    manifest,
    records,
    tables,
)
from tests.support.store_builders import (
    append,
    columns,
    commit_one,
    give_up,
    key,
    make_queue,
    payloads,
    push,
)

COUNT = 20


async def verdict(path: Path) -> str:
    """What becomes of a store: refused, whole, or something that must never happen."""
    try:
        count = await count_numbers(path)
    except Corrupted:
        return "refused"
    except SkepError as error:
        return type(error).__name__
    except ValueError:
        return "empty"
    return "whole" if count == COUNT else f"shortened to {count}"


# The log of writes.


@pytest.mark.parametrize("which", [0, COUNT // 2, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("place", ["checksum", "length", "type", "payload", "middle", "last byte"])
async def test_a_flipped_bit_in_the_log_is_refused_with_what_to_do(
    quick_path: Path, which: int, place: str
) -> None:
    crashed = await crashed_store(quick_path, COUNT)
    record = list(records(log_of(crashed).read_bytes()))[which]
    flip(log_of(crashed), record.places[place])

    with pytest.raises(Corrupted, match="Restore a backup"):
        open_store(crashed)


async def test_damage_in_the_middle_is_refused_even_if_nobody_noted_what_was_synced(
    quick_path: Path,
) -> None:
    crashed = await crashed_store(quick_path, COUNT)
    record = list(records(log_of(crashed).read_bytes()))[COUNT // 2]
    flip(log_of(crashed), record.places["payload"])
    (crashed / "SYNCED").unlink()

    with pytest.raises(Corrupted, match="Restore a backup"):
        open_store(crashed)


@pytest.mark.parametrize("damage", ["removed", "halved", "shortened", "length"])
async def test_a_log_that_others_follow_is_refused_if_a_part_of_it_is_missing(
    quick_path: Path, damage: str
) -> None:
    crashed = await store_with_three_logs(quick_path)
    _, middle, _ = sorted(crashed.glob("[0-9]*.log"))
    size = middle.stat().st_size

    if damage == "removed":
        middle.unlink()
    elif damage == "length":
        *_, last = records(middle.read_bytes())
        flip(middle, last.places["high length"], bit=6)
    else:
        os.truncate(middle, size // 2 if damage == "halved" else size - 1)

    with pytest.raises(Corrupted, match="are missing between"):
        open_store(crashed)


async def test_several_logs_of_which_the_last_is_torn_are_read(quick_path: Path) -> None:
    crashed = await store_with_three_logs(quick_path)
    *_, last = sorted(crashed.glob("[0-9]*.log"))
    with last.open("ab") as log:
        log.write(bytes(range(1, 5)))

    assert await verdict(crashed) == "whole"


async def store_with_three_logs(path: Path) -> Path:
    """A store that crashed. Segments are in tables; all else is in the logs only."""
    store = open_store(path / "live")
    partition = await start(store)
    for first, end in ((0, 5), (5, 10), (10, COUNT)):
        store._db._segments.flush()
        await push_numbers(store, partition, first, end)
    crashed = shutil.copytree(path / "live", path / "crashed")
    await store.close()
    return crashed


async def test_a_refused_log_stays_as_it_was(quick_path: Path) -> None:
    crashed = await crashed_store(quick_path, COUNT)
    record = list(records(log_of(crashed).read_bytes()))[5]
    flip(log_of(crashed), record.places["middle"])

    refused = [await verdict(crashed) for _ in range(3)]
    flip(log_of(crashed), record.places["middle"])

    assert refused == ["refused"] * 3
    assert await verdict(crashed) == "whole"


async def test_a_log_that_was_refused_for_a_flipped_length_stays_as_it_was(
    quick_path: Path,
) -> None:
    crashed = await crashed_store(quick_path, COUNT)
    record = list(records(log_of(crashed).read_bytes()))[-2]
    flip(log_of(crashed), record.places["high length"], 5)

    refused = await verdict(crashed)
    kept = log_of(crashed).exists()

    assert (refused, kept) == ("refused", True)
    flip(log_of(crashed), record.places["high length"], 5)
    assert await verdict(crashed) == "whole"


async def test_a_flipped_length_in_the_log_never_makes_it_shorter(quick_path: Path) -> None:
    crashed = await crashed_store(quick_path, COUNT)

    found: set[str] = set()
    for record in records(log_of(crashed).read_bytes()):
        for bit in range(8):
            damaged = copy(crashed)
            flip(log_of(damaged), record.places["high length"], bit)
            found.add(await verdict(damaged))

    assert found == {"refused"}


@pytest.mark.parametrize("which", [0, 5], ids=["first", "another"])
async def test_a_flipped_type_in_the_log_is_refused_and_does_not_hang(
    quick_path: Path, which: int
) -> None:
    crashed = await crashed_store(quick_path, COUNT)
    record = list(records(log_of(crashed).read_bytes()))[which]
    flip(log_of(crashed), record.places["type"], 2)

    told = run_child("count", crashed, timeout=5)

    assert told == ["Corrupted"]


# Tables.


async def commit_readable(store: RocksStore, change: Change) -> None:
    outcome = await commit_one(store, change)
    if isinstance(outcome, Unreadable):
        raise Corrupted(outcome.reason)


WAYS: dict[str, Callable[[RocksStore, Partition], Awaitable[object]]] = {
    "read": lambda store, p: store.read(p.number, 0, messages=99, size=1 << 20),
    "instant": lambda store, p: store.offset_at(p.number, 5),
    "delete": lambda store, p: store.delete_message(p.queue, p.number, 3),
    "truncate": lambda store, p: store.truncate(p.queue, p.number, 3, kind="age"),
    "give up": lambda store, p: commit_readable(store, Change(dead_letters=(give_up(p, 3),))),
    "journal": lambda store, p: store.read_journal(p.queue, store.lane, 0, limit=99),
}


@pytest.mark.parametrize("way", WAYS)
async def test_whoever_comes_upon_a_damaged_segment_is_told_so(quick_path: Path, way: str) -> None:
    crashed = await crashed_store(quick_path, COUNT, flushed=True)
    flip(tables(crashed)[1], 100)
    store = open_store(crashed)
    (queue,) = await store.queues()
    (partition,) = await store.partitions(queue.number)

    with pytest.raises(Corrupted, match="restore a backup"):
        await WAYS[way](store, partition)

    await store.close()


async def test_a_change_that_comes_upon_a_damaged_segment_fails_whole_and_alone(
    quick_path: Path,
) -> None:
    store = open_store(quick_path)
    queue = await make_queue(store)
    alice, bob, carol = await store.create_partitions(queue.number, ["alice", "bob", "carol"])
    await commit_one(store, push(carol, b"0"))
    flip_stored(store, carol.number)
    damaged = Change(
        appends=(append(alice, columns(b"no")),),
        dead_letters=(give_up(carol, 0),),
        key=key("damaged"),
    )

    commit = await store.commit([push(alice, b"0"), damaged, push(bob, b"0"), push(alice, b"1")])

    kinds = [type(outcome) for outcome in commit.outcomes]
    assert kinds == [Applied, Unreadable, Applied, Applied]
    assert await payloads(store, alice) == [b"0", b"1"]
    assert await payloads(store, bob) == [b"0"]
    assert await store.heads(queue.number) == {store.lane: 4}
    assert await store.find_outcome(key("damaged")) is None
    await store.close()


async def test_whoever_gives_up_a_damaged_message_disturbs_nobody_else(quick_path: Path) -> None:
    store = open_store(quick_path)
    async with make_broker(store, limits=Limits(cache_bytes=0)) as queue:
        await queue.push("numbers", drafts(1))
        await queue.push("orders", drafts(1))
        delivery = await pop(queue, "numbers")
        flip_stored(store, delivery.messages[0].partition_number)
        lost = Verdict(delivery.messages[0].partition_number, 0, "dead_letter")

        results = await asyncio.gather(
            queue.push("orders", drafts(2)),
            queue.settle(delivery, [lost]),
            queue.push("orders", drafts(1)),
            return_exceptions=True,
        )

        assert [isinstance(result, Corrupted) for result in results] == [False, True, False]
        assert len(await pop_all(queue, batch=10)) == 4


@pytest.mark.parametrize(
    "options",
    [{"retention_enabled": True, "retention_seconds": 1}, {"max_wait_time_seconds": 1}],
    ids=["retention", "maximum wait"],
)
async def test_a_sweep_goes_on_behind_a_damaged_partition_and_says_so(
    quick_path: Path, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    store = RocksStore(quick_path, clock=clock)
    async with make_broker(store, limits=Limits(cache_bytes=0)) as queue:
        for name in ("invoices", "orders"):
            await queue.queues.configure(name, **options)
            await queue.pop(name)
        damaged = await queue.push("invoices", [*drafts(1, "alice"), *drafts(1, "bob")])
        await queue.push("orders", drafts(1))
        flip_stored(store, damaged[0].partition_number)
        clock.advance(2)

        removed = await queue.sweep()

    assert removed == 2
    (said,) = (record.getMessage() for record in caplog.records if record.name == "skep.broker")
    assert said.startswith("could not sweep a partition: queue=invoices partition=alice ")


@pytest.mark.parametrize(
    "which",
    [pytest.param(0, id="records"), pytest.param(1, id="segments")],
)
async def test_a_flipped_bit_in_a_table_never_changes_what_is_read_nor_raises_foreign_errors(
    quick_path: Path, which: int
) -> None:
    crashed = await crashed_store(quick_path, COUNT, flushed=True)
    size = tables(crashed)[which].stat().st_size

    found: set[str] = set()
    for at in range(0, size, 9):
        damaged = copy(crashed)
        flip(tables(damaged)[which], at, at % 8)
        found.add(await verdict(damaged))

    # A bit of the bloom filter changes nothing that can be read.
    assert found == {"refused", "whole"}


async def big_damaged_store(path: Path) -> RocksStore:
    """A store that opens, and whose index of transaction ids cannot be read."""
    crashed = await crashed_store(path, 1500, flushed=True)
    data = tables(crashed)[0].read_bytes()
    # The ids are among the last of the records, before the filter and the index of the table.
    flip(tables(crashed)[0], len(data) * 3 // 4)
    return open_store(crashed)


async def test_an_index_that_cannot_be_read_is_corrupted_for_readers_and_writers(
    quick_path: Path,
) -> None:
    store = await big_damaged_store(quick_path)

    failures: list[str] = []
    for n in range(0, 1500, 50):
        try:
            assert await store.find_offset(3, f"t{n}") == n
        except Corrupted as error:
            failures.append(str(error))

    assert failures
    await store.close()


# The files that say which files there are.


async def test_a_flipped_bit_in_the_manifest_never_makes_the_store_empty(quick_path: Path) -> None:
    crashed = await crashed_store(quick_path, COUNT, flushed=True)

    found: set[str] = set()
    for at in range(manifest(crashed).stat().st_size):
        damaged = copy(crashed)
        flip(manifest(damaged), at, 3)
        found.add(await verdict(damaged))

    assert found <= {"refused", "whole"}


async def test_a_manifest_that_forgets_a_table_never_opens_with_a_hole(quick_path: Path) -> None:
    crashed = await crashed_store(quick_path, COUNT, flushed=True, after=5)

    found: set[str] = set()
    for record in records(manifest(crashed).read_bytes()):
        damaged = copy(crashed)
        flip(manifest(damaged), record.places["high length"], 5)
        found.add(await verdict(damaged))

    assert found <= {"refused", "whole"}


async def test_no_table_is_deleted_because_of_a_flipped_bit_in_the_manifest(
    quick_path: Path,
) -> None:
    crashed = await crashed_store(quick_path, COUNT, flushed=True)
    whole = [table.name for table in tables(crashed)]

    lost: set[int] = set()
    for at in range(manifest(crashed).stat().st_size):
        damaged = copy(crashed)
        flip(manifest(damaged), at, 3)
        await verdict(damaged)
        if not all((damaged / name).exists() for name in whole):
            lost.add(at)

    assert lost == set()


@pytest.mark.parametrize(
    "name",
    [
        "CURRENT",
        "000009.sst",
        "000010.sst",
        "MANIFEST-000005",
    ],
)
async def test_a_missing_file_is_refused(quick_path: Path, name: str) -> None:
    crashed = await crashed_store(quick_path, COUNT, flushed=True)
    (crashed / name).unlink()

    with pytest.raises(Corrupted):
        open_store(crashed)


async def test_a_missing_log_is_refused(quick_path: Path) -> None:
    crashed = await crashed_store(quick_path, COUNT)
    log_of(crashed).unlink()

    assert await verdict(crashed) == "refused"


async def test_a_store_without_its_current_file_is_refused_for_good_and_can_be_saved(
    quick_path: Path,
) -> None:
    crashed = await crashed_store(quick_path, COUNT, flushed=True)
    current = (crashed / "CURRENT").read_bytes()
    (crashed / "CURRENT").unlink()

    found = [await verdict(crashed) for _ in range(3)]
    (crashed / "CURRENT").write_bytes(current)

    assert found == ["refused"] * 3
    assert await verdict(crashed) == "whole"


async def test_a_flipped_bit_in_the_current_file_never_makes_the_store_empty(
    quick_path: Path,
) -> None:
    crashed = await crashed_store(quick_path, COUNT, flushed=True)

    found: set[str] = set()
    for at in range(len((crashed / "CURRENT").read_bytes())):
        damaged = copy(crashed)
        flip(damaged / "CURRENT", at, 3)
        found.add(await verdict(damaged))

    assert found <= {"refused", "Unavailable"}


async def test_files_that_only_describe_may_be_lost(quick_path: Path) -> None:
    crashed = await crashed_store(quick_path, COUNT, flushed=True)

    for name in ("IDENTITY", "LOCK", "OWNER", "rocksdict-config.json"):
        (crashed / name).unlink()

    assert await verdict(crashed) == "whole"
