"""One transaction id in one partition is one message."""

import pytest

from skep.model.address import message_id
from skep.model.change import Applied, Change
from skep.model.queue import Partition, Queue
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.store_builders import (
    TRACE,
    Entry,
    append,
    append_ids,
    appended,
    columns,
    commit_one,
    entries,
    fresh,
    payloads,
    placed,
    push,
    push_ids,
    read_all,
    stale_update,
)


async def test_a_second_push_of_an_id_is_answered_with_the_place_of_the_first(
    store: Store, alice: Partition
) -> None:
    await appended(store, push_ids(alice, "a", "b"))

    again = await appended(store, push_ids(alice, "b"))

    assert again == placed(alice, [1], [0])
    assert await payloads(store, alice) == [b"a", b"b"]


async def test_the_first_payload_of_an_id_stays(store: Store, alice: Partition) -> None:
    await appended(store, Change(appends=(append(alice, columns(b"first", ids=["x"])),)))

    await appended(store, Change(appends=(append(alice, columns(b"second", ids=["x"])),)))

    assert await payloads(store, alice) == [b"first"]


async def test_an_id_twice_in_one_append_is_one_message(store: Store, alice: Partition) -> None:
    where = await appended(store, push_ids(alice, "a", "b", "a"))

    assert where == placed(alice, [0, 1, 0], [2])
    assert await payloads(store, alice) == [b"a", b"b"]


async def test_an_id_in_two_appends_of_one_change_is_one_message(
    store: Store, alice: Partition
) -> None:
    change = Change(appends=(append_ids(alice, "a", "b"), append_ids(alice, "b", "c")))

    outcome = await commit_one(store, change)

    assert outcome == Applied((placed(alice, [0, 1]), placed(alice, [1, 2], [0])))


async def test_an_id_in_two_changes_of_one_commit_is_one_message(
    store: Store, alice: Partition
) -> None:
    done = await store.commit([push_ids(alice, "a"), push_ids(alice, "a", "b")])

    assert done.outcomes == [
        Applied((placed(alice, [0]),)),
        Applied((placed(alice, [0, 1], [0]),)),
    ]
    assert await payloads(store, alice) == [b"a", b"b"]


async def test_new_messages_between_duplicates_get_dense_offsets(
    store: Store, alice: Partition
) -> None:
    await appended(store, push_ids(alice, "a", "b"))

    where = await appended(store, push_ids(alice, "c", "a", "d", "b", "e"))

    assert where == placed(alice, [2, 0, 3, 1, 4], [1, 3])
    assert await payloads(store, alice) == [b"a", b"b", b"c", b"d", b"e"]


async def test_what_belongs_to_a_new_message_stays_with_it_when_its_neighbours_are_duplicates(
    store: Store, alice: Partition
) -> None:
    await appended(store, push_ids(alice, "a", "c"))
    made = columns(
        b"A",
        b"B",
        b"C",
        b"D",
        ids=["a", "b", "c", None],
        traces=[None, TRACE, None, None],
        producers=["1", "2", "3", "4"],
        flags=bytes([0, 1, 0, 0]),
    )

    await appended(store, Change(appends=(append(alice, made),)))

    assert (await entries(store, alice))[2:] == [
        Entry(2, b"B", "b", TRACE, "2", 1),
        Entry(3, b"D", None, None, "4", 0),
    ]


async def test_the_same_id_in_two_partitions_is_two_messages(
    store: Store, alice: Partition, bob: Partition
) -> None:
    await appended(store, push_ids(alice, "a"))

    where = await appended(store, push_ids(bob, "a"))

    assert where == placed(bob, [0])
    assert await payloads(store, bob) == [b"a"]


async def test_messages_without_an_id_are_never_duplicates(store: Store, alice: Partition) -> None:
    await appended(store, push_ids(alice, None, None))

    where = await appended(store, push_ids(alice, None, "a", None))

    assert where == placed(alice, [2, 3, 4])


async def test_a_push_of_duplicates_only_changes_nothing(
    store: Store, clock: ManualClock, orders: Queue, alice: Partition
) -> None:
    await appended(store, push_ids(alice, "a", "b"))
    before = await fresh(store, alice)
    clock.advance(60)

    done = await store.commit([push_ids(alice, "b", "a")])

    assert done.outcomes == [Applied((placed(alice, [1, 0], [0, 1]),))]
    assert done.segments == []
    assert await fresh(store, alice) == before
    assert await store.heads(orders.number) == {store.lane: 2}


async def test_an_id_in_a_refused_change_is_still_free(store: Store, alice: Partition) -> None:
    refused = Change(appends=(append_ids(alice, "a"),), consumers=(stale_update(alice),))

    done = await store.commit([refused, push_ids(alice, "a")])

    assert done.outcomes[1] == Applied((placed(alice, [0]),))
    assert await payloads(store, alice) == [b"a"]


async def test_a_message_is_found_by_its_id_in_its_partition_only(
    store: Store, alice: Partition, bob: Partition
) -> None:
    await appended(store, push_ids(alice, "a", None, "b"))

    assert await store.find_offset(alice.number, "b") == 2
    assert await store.find_offset(alice.number, "c") is None
    assert await store.find_offset(bob.number, "b") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", "A"), ("a", "ab"), ("a", "a "), ("é", "e\u0301"), ("1", "01"), ("a", "a\x00")],
    ids=["case", "prefix", "blank", "normal form", "digits", "nul"],
)
async def test_ids_that_only_look_alike_are_two_messages(
    store: Store, alice: Partition, one: str, other: str
) -> None:
    await appended(store, push_ids(alice, one))

    where = await appended(store, push_ids(alice, other))

    assert where == placed(alice, [1])
    assert await store.find_offset(alice.number, one) == 0


async def test_the_own_id_of_a_message_without_a_chosen_one_is_its_id(
    store: Store, alice: Partition
) -> None:
    await appended(store, push(alice, b"a", b"b"))

    again = await appended(store, push_ids(alice, str(message_id(alice.number, 1)), "new"))

    assert again == placed(alice, [1, 2], [0])
    assert await payloads(store, alice) == [b"a", b"b", b"new"]


async def test_the_own_id_of_a_message_is_not_that_of_another(
    store: Store, alice: Partition, bob: Partition
) -> None:
    await appended(store, push_ids(alice, "chosen", None))
    await appended(store, push(bob, b"b"))
    await store.delete_message(alice.queue, alice.number, 1)
    others = [(alice, 0), (alice, 1), (alice, 7), (bob, 0)]

    where = await appended(
        store, push_ids(alice, *(str(message_id(at.number, offset)) for at, offset in others))
    )

    assert where == placed(alice, [2, 3, 4, 5])


async def test_every_id_of_a_large_append_is_known_afterwards(
    store: Store, alice: Partition
) -> None:
    ids = [f"id-{n}" for n in range(2100)]
    await appended(store, push_ids(alice, *ids))

    again = await appended(store, push_ids(alice, *reversed(ids)))

    assert again == placed(alice, list(reversed(range(2100))), range(2100))
    assert len(await payloads(store, alice)) == 2100


async def test_duplicates_do_not_end_up_in_a_segment_with_new_ones_of_another_change(
    store: Store, alice: Partition
) -> None:
    await appended(store, push_ids(alice, "a"))

    await store.commit([push_ids(alice, "a", "b"), push(alice, b"plain"), push_ids(alice, "b")])

    assert [s.start for s in await read_all(store, alice)] == [0, 1]
    assert await entries(store, alice) == [
        Entry(0, b"a", "a"),
        Entry(1, b"b", "b"),
        Entry(2, b"plain"),
    ]
