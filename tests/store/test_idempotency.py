"""A change with an idempotency key happens once."""

import pytest

from skep.model.change import Applied, Change, Reused, Stale
from skep.model.consumer import ConsumerState
from skep.model.name import SECOND
from skep.model.queue import Partition, Queue
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.store_builders import (
    append,
    append_ids,
    appended,
    columns,
    commit_one,
    consumer,
    key,
    payloads,
    placed,
    push_ids,
    stale_update,
    truncate_all,
    update,
)


def once(partition: Partition, payload: bytes = b"a", name: str = "k") -> Change:
    return Change(appends=(append(partition, columns(payload)),), key=key(name))


async def test_a_repetition_changes_nothing_and_gets_the_first_answer(
    store: Store, alice: Partition
) -> None:
    first = await commit_one(store, once(alice))
    await commit_one(store, once(alice, b"between", "other"))

    again = await commit_one(store, once(alice))

    assert first == Applied((placed(alice, [0]),))
    assert again == Applied((placed(alice, [0]),), repeated=True)
    assert await payloads(store, alice) == [b"a", b"between"]


async def test_a_repetition_in_the_same_commit_is_one_too(store: Store, alice: Partition) -> None:
    done = await store.commit([once(alice), once(alice)])

    assert done.outcomes == [
        Applied((placed(alice, [0]),)),
        Applied((placed(alice, [0]),), repeated=True),
    ]
    assert await payloads(store, alice) == [b"a"]


async def test_the_first_answer_is_kept_whole(
    store: Store, alice: Partition, bob: Partition
) -> None:
    await appended(store, push_ids(alice, "x"))
    change = Change(
        appends=(append_ids(alice, "w", "x"), append_ids(bob, "y"), append_ids(alice, "w")),
        key=key(),
    )
    first = await commit_one(store, change)

    again = await commit_one(store, change)

    expected = (placed(alice, [1, 0], [1]), placed(bob, [0]), placed(alice, [1], [0]))
    assert first == Applied(expected)
    assert again == Applied(expected, repeated=True)


async def test_a_repetition_is_answered_though_what_it_expected_is_long_past(
    store: Store, alice: Partition
) -> None:
    ack = Change(consumers=(update(alice, 0, ConsumerState(version=1, cursor=1)),), key=key())
    await commit_one(store, ack)
    await commit_one(
        store, Change(consumers=(update(alice, 1, ConsumerState(version=2, cursor=2)),))
    )

    again = await commit_one(store, ack)

    assert again == Applied(repeated=True)
    assert await consumer(store, alice) == ConsumerState(version=2, cursor=2)


async def test_a_repetition_is_answered_after_its_messages_were_truncated(
    store: Store, alice: Partition
) -> None:
    change = Change(appends=(append_ids(alice, "a"),), key=key())
    await commit_one(store, change)
    await truncate_all(store, alice, 1)

    again = await commit_one(store, change)

    assert again == Applied((placed(alice, [0]),), repeated=True)
    assert await payloads(store, alice) == []


async def test_a_key_with_another_fingerprint_is_refused(store: Store, alice: Partition) -> None:
    await commit_one(store, once(alice))
    other = Change(appends=(append(alice, columns(b"b")),), key=key(fingerprint=b"other"))

    done = await store.commit([other, once(alice, b"c", "free")])

    assert done.outcomes == [Reused(), Applied((placed(alice, [1]),))]
    assert await payloads(store, alice) == [b"a", b"c"]


async def test_a_refused_change_does_not_use_its_key_up(store: Store, alice: Partition) -> None:
    refused = Change(
        appends=(append(alice, columns(b"no")),), consumers=(stale_update(alice),), key=key()
    )

    done = await store.commit([refused, once(alice)])

    assert done.outcomes == [Stale(), Applied((placed(alice, [0]),))]
    assert await payloads(store, alice) == [b"a"]


async def test_a_key_tells_what_became_of_its_change(store: Store, alice: Partition) -> None:
    before = await store.find_outcome(key())
    await commit_one(store, once(alice))

    assert before is None
    assert await store.find_outcome(key()) == Applied((placed(alice, [0]),), repeated=True)
    assert await store.find_outcome(key(fingerprint=b"other")) == Reused()


async def test_a_change_that_holds_nothing_but_a_key_is_recorded(store: Store) -> None:
    await commit_one(store, Change(key=key()))

    assert await store.find_outcome(key()) == Applied(repeated=True)


@pytest.mark.parametrize("other", ["K", "kk", "k ", "ключ", "k\x00"])
async def test_keys_that_only_look_alike_are_two_keys(
    store: Store, alice: Partition, other: str
) -> None:
    await commit_one(store, once(alice))

    outcome = await commit_one(store, once(alice, b"b", other))

    assert outcome == Applied((placed(alice, [1]),))
    assert await store.find_outcome(key(other)) is not None


async def test_keys_recorded_before_an_instant_are_forgotten_the_others_not(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    for name in ("a", "b", "c"):
        await commit_one(store, once(alice, name=name))
        clock.advance(10)

    forgotten = await store.forget_outcomes(clock.now() - 10 * SECOND, limit=99)

    assert forgotten == 2
    known = [name for name in ("a", "b", "c") if await store.find_outcome(key(name))]
    assert known == ["c"]


async def test_forgetting_is_bounded_and_begins_with_the_oldest(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    for name in ("c", "b", "a"):
        await commit_one(store, once(alice, name=name))
        clock.advance(1)

    first = await store.forget_outcomes(clock.now(), limit=2)
    newest = await store.find_outcome(key("a"))
    rest = [await store.forget_outcomes(clock.now(), limit=2) for _ in range(2)]

    assert (first, rest) == (2, [1, 0])
    assert newest is not None


async def test_a_forgotten_key_may_be_used_again(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    await commit_one(store, once(alice))
    clock.advance(1)
    await store.forget_outcomes(clock.now(), limit=9)

    outcome = await commit_one(store, once(alice, b"b"))

    assert outcome == Applied((placed(alice, [1]),))
    assert await store.forget_outcomes(clock.now(), limit=9) == 0
    assert await store.find_outcome(key()) is not None


async def test_a_key_outlives_the_group_and_the_messages_it_spoke_of(
    store: Store, orders: Queue, alice: Partition
) -> None:
    ack = Change(consumers=(update(alice, 0, ConsumerState(version=1)),), key=key())
    await commit_one(store, ack)

    await store.delete_group(orders.number, "billing")

    assert await commit_one(store, ack) == Applied(repeated=True)
    assert await consumer(store, alice) is None
