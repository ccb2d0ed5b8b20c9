"""Reading by position, by time and by trace."""

import pytest

from skep.model.change import Change
from skep.model.name import SECOND
from skep.model.queue import Partition, Queue
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.store_builders import (
    NO_LIMIT,
    TRACE,
    UNKNOWN,
    append,
    appended,
    bounds,
    columns,
    make_partition,
    push,
    push_each,
    read_all,
    truncate_all,
)


@pytest.fixture
async def thirds(store: Store, alice: Partition) -> Partition:
    """A partition of three segments of three messages of ten bytes."""
    for n in range(3):
        await appended(store, push(alice, *(b"%010d" % (3 * n + m) for m in range(3))))
    return alice


async def test_reading_begins_with_the_segment_that_holds_the_offset(
    store: Store, thirds: Partition
) -> None:
    found = [bounds(await read_all(store, thirds, offset)) for offset in (0, 2, 3, 5, 8)]

    assert found == [
        [(0, 3), (3, 6), (6, 9)],
        [(0, 3), (3, 6), (6, 9)],
        [(3, 6), (6, 9)],
        [(3, 6), (6, 9)],
        [(6, 9)],
    ]


async def test_reading_stops_when_it_holds_enough_messages_from_the_offset_on(
    store: Store, thirds: Partition
) -> None:
    async def read(offset: int, messages: int) -> list[tuple[int, int]]:
        found = await store.read(thirds.number, offset, messages=messages, size=NO_LIMIT)
        return bounds(found)

    assert await read(0, 1) == [(0, 3)]
    assert await read(0, 3) == [(0, 3)]
    assert await read(0, 4) == [(0, 3), (3, 6)]
    assert await read(2, 1) == [(0, 3)]
    assert await read(2, 2) == [(0, 3), (3, 6)]
    assert await read(2, 5) == [(0, 3), (3, 6), (6, 9)]


async def test_reading_stops_when_it_holds_enough_bytes_but_not_before_the_first_segment(
    store: Store, thirds: Partition
) -> None:
    async def read(size: int) -> list[tuple[int, int]]:
        return bounds(await store.read(thirds.number, 0, messages=NO_LIMIT, size=size))

    assert await read(1) == [(0, 3)]
    assert await read(30) == [(0, 3)]
    assert await read(31) == [(0, 3), (3, 6)]
    assert await read(61) == [(0, 3), (3, 6), (6, 9)]


async def test_a_segment_knows_how_many_bytes_of_payload_it_holds(
    store: Store, alice: Partition
) -> None:
    made = columns(b"", b"12345", b"\x00\x00", ids=["long id", None, None], producers=["p"] * 3)

    await appended(store, Change(appends=(append(alice, made),)))

    assert [segment.size for segment in await read_all(store, alice)] == [7]


async def test_there_is_nothing_at_the_end_and_beyond(store: Store, thirds: Partition) -> None:
    assert await read_all(store, thirds, 9) == []
    assert await read_all(store, thirds, 1 << 40) == []


async def test_an_empty_and_an_unknown_partition_read_as_nothing(
    store: Store, alice: Partition
) -> None:
    assert await read_all(store, alice) == []
    assert await store.read(UNKNOWN, 0, messages=9, size=9) == []
    assert await store.find_offset(UNKNOWN, "a") is None
    assert await store.offset_at(UNKNOWN, 0) == 0


async def test_reading_does_not_run_into_the_neighbouring_partition(
    store: Store, orders: Queue
) -> None:
    left, middle, right = await store.create_partitions(orders.number, ["l", "m", "r"])
    await store.commit([push(left, b"l"), push(right, b"r")])

    empty = [await read_all(store, middle), await read_all(store, left, 1)]
    await appended(store, push(middle, b"m"))

    assert empty == [[], []]
    assert [s.partition for s in await read_all(store, middle)] == [middle.number]


async def test_reading_what_is_no_longer_kept_begins_at_the_first_that_is(
    store: Store, thirds: Partition
) -> None:
    await truncate_all(store, thirds, 6)

    found = [bounds(await read_all(store, thirds, offset)) for offset in (0, 4, 6)]

    assert found == [[(6, 9)], [(6, 9)], [(6, 9)]]


async def test_an_instant_leads_to_the_first_message_pushed_then_or_later(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    noon = clock.now()
    for _ in range(4):
        await appended(store, push(alice, b"a", b"b"))
        clock.advance(10)

    async def at(seconds: int) -> int:
        return await store.offset_at(alice.number, noon + seconds * SECOND)

    assert [await at(s) for s in (-5, 0, 1, 10, 11, 30)] == [0, 0, 2, 2, 4, 6]
    assert await store.offset_at(alice.number, noon + 10 * SECOND + 1) == 4


async def test_an_instant_after_the_last_message_leads_to_the_end(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    await appended(store, push(alice, b"a", b"b"))

    assert await store.offset_at(alice.number, clock.now() + 1) == 2


async def test_an_instant_leads_to_the_first_of_several_segments_pushed_at_once(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    await push_each(store, alice, b"a")
    clock.advance(1)
    await push_each(store, alice, b"b", b"c", b"d")
    clock.advance(1)
    await push_each(store, alice, b"e")

    assert await store.offset_at(alice.number, clock.now() - SECOND) == 1


async def test_an_instant_leads_to_the_end_of_a_partition_that_keeps_nothing(
    store: Store, clock: ManualClock, alice: Partition, bob: Partition
) -> None:
    await push_each(store, alice, b"a", b"b")
    await truncate_all(store, alice, 2)

    assert await store.offset_at(alice.number, clock.now()) == 2
    assert await store.offset_at(bob.number, clock.now()) == 0


async def test_an_instant_before_what_is_kept_leads_to_the_first_that_is(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    noon = clock.now()
    for payload in (b"a", b"b", b"c"):
        await push_each(store, alice, payload)
        clock.advance(1)
    await truncate_all(store, alice, 2)

    assert await store.offset_at(alice.number, noon) == 2


async def test_messages_are_found_by_their_trace_oldest_partition_first(
    store: Store, alice: Partition, bob: Partition
) -> None:
    traced = columns(b"a", b"b", b"c", traces=[TRACE, None, TRACE])
    await appended(store, Change(appends=(append(bob, traced),)))
    await appended(store, Change(appends=(append(alice, traced),)))

    found = await store.find_trace(TRACE, limit=10)

    assert found == [(alice.number, 0), (alice.number, 2), (bob.number, 0), (bob.number, 2)]
    assert await store.find_trace(TRACE, limit=3) == found[:3]


async def test_a_trace_id_that_nobody_used_finds_nothing(store: Store, alice: Partition) -> None:
    neighbours = [b"\x00" * 15 + b"\x01", b"\x00" * 15 + b"\x03", None]
    made = columns(b"a", b"b", b"c", traces=neighbours)

    await appended(store, Change(appends=(append(alice, made),)))

    assert await store.find_trace(b"\x00" * 15 + b"\x02", limit=10) == []


async def test_the_last_of_all_trace_ids_is_found_too(store: Store, orders: Queue) -> None:
    partition = await make_partition(store, orders)
    made = columns(b"a", traces=[b"\xff" * 16])

    await appended(store, Change(appends=(append(partition, made),)))

    assert await store.find_trace(b"\xff" * 16, limit=10) == [(partition.number, 0)]
