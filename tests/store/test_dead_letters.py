"""Dead letters: copies that outlive their message, one per message and group."""

from skep.model.change import Applied, Change, DeadLetterRemoval, Stale
from skep.model.consumer import ConsumerState
from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.name import SECOND
from skep.model.queue import Partition, Queue
from skep.model.segment import ENCRYPTED
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.store_builders import (
    TRACE,
    UNKNOWN,
    Entry,
    append,
    append_ids,
    appended,
    columns,
    commit_one,
    consumer,
    entries,
    give_up,
    letters,
    make_partition,
    make_queue,
    payloads,
    placed,
    push,
    push_each,
    push_ids,
    removal,
    truncate_all,
    update,
)


async def bury(store: Store, partition: Partition, *offsets: int, group: str = "billing") -> None:
    """Give the messages up, each in a commit of its own."""
    for offset in offsets:
        await store.commit([Change(dead_letters=(give_up(partition, offset, group=group),))])


async def test_a_dead_letter_is_a_copy_of_its_message(
    store: Store, clock: ManualClock, orders: Queue, alice: Partition
) -> None:
    made = columns(
        b"a",
        b"\x00b\xff",
        ids=[None, "ünï"],
        traces=[None, TRACE],
        producers=[None, "shop"],
        flags=bytes([0, ENCRYPTED]),
    )
    await appended(store, Change(appends=(append(alice, made),)))
    clock.advance(10)

    await store.commit([Change(dead_letters=(give_up(alice, 1, error="bröken"),))])

    (letter,) = await letters(store, orders)
    assert letter == DeadLetter(
        number=letter.number,
        queue=orders.number,
        partition=alice.number,
        offset=1,
        group="billing",
        error="bröken",
        attempts=4,
        failed_at=clock.now(),
        payload=b"\x00b\xff",
        chosen_id="ünï",
        trace=TRACE,
        producer="shop",
        created_at=clock.now() - 10 * SECOND,
        encrypted=True,
    )
    assert await store.find_dead_letter(orders.number, letter.number) == letter


async def test_what_the_message_does_not_have_its_dead_letter_has_not_either(
    store: Store, orders: Queue, alice: Partition, bob: Partition
) -> None:
    await appended(store, push(alice, b""))
    mixed = columns(b"a", b"b", ids=[None, "i"], traces=[None, TRACE], producers=[None, "p"])
    await appended(store, Change(appends=(append(bob, mixed),)))

    await bury(store, alice, 0)
    await bury(store, bob, 0)

    assert [
        (x.chosen_id, x.trace, x.producer, x.encrypted) for x in await letters(store, orders)
    ] == [(None, None, None, False)] * 2


async def test_a_dead_letter_outlives_its_message(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a", b"b")
    await bury(store, alice, 0, 1)

    await truncate_all(store, alice, 1)
    await store.delete_message(orders.number, alice.number, 1)

    assert [letter.payload for letter in await letters(store, orders)] == [b"b", b"a"]


async def test_a_message_that_is_no_longer_kept_makes_no_dead_letter(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a", b"b")
    await truncate_all(store, alice, 1)

    outcome = await commit_one(
        store,
        Change(
            consumers=(update(alice, 0, ConsumerState(version=1, cursor=2)),),
            dead_letters=(give_up(alice, 0), give_up(alice, 1), give_up(alice, 7)),
        ),
    )

    assert outcome == Applied()
    assert [letter.offset for letter in await letters(store, orders)] == [1]
    assert await consumer(store, alice) == ConsumerState(version=1, cursor=2)


async def test_a_message_of_an_earlier_change_of_the_same_commit_can_be_given_up(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await store.commit([push(alice, b"a"), Change(dead_letters=(give_up(alice, 0),))])

    assert [letter.payload for letter in await letters(store, orders)] == [b"a"]


async def test_a_refused_change_gives_nothing_up(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a")
    refused = Change(
        consumers=(update(alice, 5, ConsumerState(version=6)),), dead_letters=(give_up(alice, 0),)
    )

    outcome = await commit_one(store, refused)

    assert outcome == Stale()
    assert await letters(store, orders) == []


async def test_there_is_one_dead_letter_per_message_and_group_the_newest(
    store: Store, clock: ManualClock, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a")
    await bury(store, alice, 0)
    (first,) = await letters(store, orders)
    clock.advance(1)

    await bury(store, alice, 0)

    (second,) = await letters(store, orders)
    assert second.number > first.number
    assert second.failed_at == clock.now()
    assert await store.find_dead_letter(orders.number, first.number) is None


async def test_a_message_given_up_twice_in_one_commit_is_one_dead_letter(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a")

    await store.commit(
        [
            Change(dead_letters=(give_up(alice, 0, error="first"),)),
            Change(dead_letters=(give_up(alice, 0, error="last"),)),
        ]
    )

    assert [letter.error for letter in await letters(store, orders)] == ["last"]


async def test_each_group_has_dead_letters_of_its_own(
    store: Store, orders: Queue, alice: Partition, bob: Partition
) -> None:
    await push_each(store, alice, b"a")
    await push_each(store, bob, b"b")

    await bury(store, alice, 0, group="g")
    await bury(store, alice, 0, group="gg")
    await bury(store, bob, 0, group="g")

    assert [(x.partition, x.group) for x in await letters(store, orders)] == [
        (bob.number, "g"),
        (alice.number, "gg"),
        (alice.number, "g"),
    ]


async def test_pages_of_dead_letters_go_on_below_a_number_newest_first(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, *(b"%d" % n for n in range(7)))
    await bury(store, alice, *range(7))
    which = DeadLetterFilter(queue=orders.number)

    pages: list[list[int]] = []
    before: int | None = None
    while page := await store.dead_letters(which, before=before, limit=3):
        pages.append([letter.offset for letter in page])
        before = page[-1].number

    assert pages == [[6, 5, 4], [3, 2, 1], [0]]


async def test_a_page_is_full_even_if_most_letters_do_not_match(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, *[b"x"] * 6)
    for offset in range(6):
        await bury(store, alice, offset, group="even" if offset % 2 == 0 else "odd")

    page = await store.dead_letters(DeadLetterFilter(queue=orders.number, group="even"), limit=2)

    assert [letter.offset for letter in page] == [4, 2]


async def test_dead_letters_are_chosen_by_group_partition_and_time(
    store: Store, clock: ManualClock, orders: Queue, alice: Partition, bob: Partition
) -> None:
    noon = clock.now()
    await push_each(store, alice, b"a0", b"a1")
    await push_each(store, bob, b"b0")
    await bury(store, alice, 0, group="g")
    clock.advance(10)
    await bury(store, alice, 1, group="h")
    clock.advance(10)
    await bury(store, bob, 0, group="g")

    which = {
        "all": DeadLetterFilter(queue=orders.number),
        "group": DeadLetterFilter(queue=orders.number, group="g"),
        "partition": DeadLetterFilter(queue=orders.number, partition=alice.number),
        "from": DeadLetterFilter(queue=orders.number, from_at=noon + 10 * SECOND),
        "to": DeadLetterFilter(queue=orders.number, to_at=noon + 10 * SECOND),
        "both": DeadLetterFilter(queue=orders.number, group="g", from_at=noon + 1),
    }
    found = {
        name: b" ".join(letter.payload for letter in await store.dead_letters(one, limit=9))
        for name, one in which.items()
    }

    assert found == {
        "all": b"b0 a1 a0",
        "group": b"b0 a0",
        "partition": b"a1 a0",
        "from": b"b0 a1",
        "to": b"a0",
        "both": b"b0",
    }
    counts = {name: await store.count_dead_letters(one) for name, one in which.items()}
    assert counts == {name: len(payload.split()) for name, payload in found.items()}


async def test_a_queue_shows_its_own_dead_letters_only(
    store: Store, orders: Queue, alice: Partition
) -> None:
    other = await make_queue(store, "other")
    there = await make_partition(store, other)
    await push_each(store, alice, b"here")
    await push_each(store, there, b"there")
    await bury(store, alice, 0)
    await bury(store, there, 0)

    (letter,) = await letters(store, other)

    assert letter.payload == b"there"
    assert await store.find_dead_letter(orders.number, letter.number) is None
    assert await store.find_dead_letter(UNKNOWN, letter.number) is None
    assert await store.count_dead_letters(DeadLetterFilter(queue=UNKNOWN)) == 0
    assert (await store.stats()).dead_letters == 2


async def test_a_removed_dead_letter_is_gone_and_the_others_stay(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a", b"b")
    await bury(store, alice, 0, 1)
    second, first = await letters(store, orders)

    outcome = await commit_one(store, Change(removals=(removal(first),)))

    assert outcome == Applied()
    assert await letters(store, orders) == [second]
    assert await store.find_dead_letter(orders.number, first.number) is None
    assert await store.count_dead_letters(DeadLetterFilter(queue=orders.number)) == 1


async def test_removing_what_is_not_there_is_stale_with_its_whole_change(
    store: Store, orders: Queue, alice: Partition
) -> None:
    replay = Change(
        appends=(append(alice, columns(b"a")),),
        removals=(DeadLetterRemoval(queue=orders.number, number=UNKNOWN),),
    )

    outcome = await commit_one(store, replay)

    assert outcome == Stale()
    assert await payloads(store, alice) == []


async def test_removing_another_queues_letter_is_stale(
    store: Store, orders: Queue, alice: Partition
) -> None:
    other = await make_queue(store, "other")
    await push_each(store, alice, b"a")
    await bury(store, alice, 0)
    (letter,) = await letters(store, orders)

    outcome = await commit_one(
        store, Change(removals=(DeadLetterRemoval(queue=other.number, number=letter.number),))
    )

    assert outcome == Stale()
    assert await letters(store, orders) == [letter]


async def test_of_two_removals_in_one_commit_the_second_is_stale(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a")
    await bury(store, alice, 0)
    (letter,) = await letters(store, orders)
    replay = Change(
        appends=(append(alice, columns(b"again"), replay=True),), removals=(removal(letter),)
    )

    done = await store.commit([replay, replay])

    assert [type(outcome) for outcome in done.outcomes] == [Applied, Stale]
    assert await payloads(store, alice) == [b"a", b"again"]


async def test_a_message_can_be_given_up_again_after_its_dead_letter_was_removed(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a")
    await bury(store, alice, 0)
    (first,) = await letters(store, orders)
    await store.commit([Change(removals=(removal(first),))])

    await bury(store, alice, 0)

    (second,) = await letters(store, orders)
    assert second.number > first.number


async def test_a_letter_removed_and_given_up_again_in_one_commit_is_there_once(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a")
    await bury(store, alice, 0)
    (first,) = await letters(store, orders)

    await store.commit(
        [
            Change(removals=(removal(first),)),
            Change(dead_letters=(give_up(alice, 0, error="again"),)),
        ]
    )
    await bury(store, alice, 0)

    assert len(await letters(store, orders)) == 1


async def test_a_replay_goes_to_the_end_and_takes_its_id_over(
    store: Store, alice: Partition
) -> None:
    await appended(store, push_ids(alice, "a", "b"))

    where = await appended(store, Change(appends=(append_ids(alice, "a", replay=True),)))

    assert where == placed(alice, [2])
    assert await entries(store, alice) == [
        Entry(0, b"a", "a"),
        Entry(1, b"b", "b"),
        Entry(2, b"a", "a"),
    ]
    assert await store.find_offset(alice.number, "a") == 2


async def test_a_push_after_a_replay_is_a_duplicate_of_the_replayed_message(
    store: Store, alice: Partition
) -> None:
    await appended(store, push_ids(alice, "a"))

    done = await store.commit(
        [Change(appends=(append_ids(alice, "a", replay=True),)), push_ids(alice, "a")]
    )
    later = await appended(store, push_ids(alice, "a"))

    assert done.outcomes[1] == Applied((placed(alice, [1], [0]),))
    assert later == placed(alice, [1], [0])


async def test_a_replay_of_a_message_whose_id_is_free_is_stored_under_it(
    store: Store, alice: Partition
) -> None:
    await appended(store, push_ids(alice, "a"))
    await truncate_all(store, alice, 1)

    where = await appended(store, Change(appends=(append_ids(alice, "a", None, replay=True),)))

    assert where == placed(alice, [1, 2])
    assert await store.find_offset(alice.number, "a") == 1


async def test_a_replay_happens_together_with_the_removal_of_its_letter(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await appended(store, push_ids(alice, "a"))
    await bury(store, alice, 0)
    (letter,) = await letters(store, orders)

    outcome = await commit_one(
        store,
        Change(appends=(append_ids(alice, "a", replay=True),), removals=(removal(letter),)),
    )

    assert outcome == Applied((placed(alice, [1]),))
    assert await letters(store, orders) == []
    assert await payloads(store, alice) == [b"a", b"a"]


async def test_the_messages_of_a_range_that_were_given_up_are_found_by_their_place(
    store: Store, orders: Queue, alice: Partition, bob: Partition
) -> None:
    await push_each(store, alice, b"a", b"b", b"c", b"d")
    await push_each(store, bob, b"a", b"b", b"c", b"d")
    await bury(store, alice, 0, 3, 1, group="h")
    await bury(store, alice, 1, group="g")
    await bury(store, bob, 2)

    found = await store.given_up(alice.number, 1, 3)

    numbers = {(x.offset, x.group): x.number for x in await letters(store, orders)}
    assert found == [(1, "g", numbers[1, "g"]), (1, "h", numbers[1, "h"])]
    assert await store.given_up(alice.number, 2, 3) == []
    assert await store.given_up(UNKNOWN, 0, 9) == []


async def test_a_letter_that_was_taken_away_is_not_found_by_its_place(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a")
    await bury(store, alice, 0)
    (letter,) = await letters(store, orders)

    await commit_one(store, Change(removals=(removal(letter),)))

    assert await store.given_up(alice.number, 0, 1) == []
