"""A group's state is replaced only by who has seen it, and under a lease only while it lasts."""

from msgspec.structs import replace

from skep.model.change import Applied, Change, Expired, Gone, Stale
from skep.model.consumer import ConsumerState, Failure, Revision
from skep.model.name import SECOND
from skep.model.queue import Partition, Queue, Subscription
from skep.store.protocol import Store, StoredConsumer
from skep.testing.clock import ManualClock
from tests.support.store_builders import (
    APPLIED,
    UNKNOWN,
    append,
    columns,
    commit_one,
    consumer,
    lease,
    make_partition,
    make_queue,
    payloads,
    push,
    subscribe,
    update,
)


def change(
    partition: Partition,
    expected: int,
    state: ConsumerState,
    *,
    group: str = "billing",
    under: str | None = None,
) -> Change:
    return Change(consumers=(update(partition, expected, state, group=group, under=under),))


async def test_the_first_update_of_a_group_expects_version_zero(
    store: Store, alice: Partition
) -> None:
    outcome = await commit_one(store, change(alice, 0, ConsumerState(version=1, cursor=3)))

    assert outcome == APPLIED
    assert await consumer(store, alice) == ConsumerState(version=1, cursor=3)


async def test_every_part_of_a_state_comes_back(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    state = ConsumerState(
        version=1,
        cursor=5,
        acked=((7, 9), (12, 1 << 50)),
        run_end=1 << 50,
        attempt=2,
        retries=1,
        ready_at=clock.now() + 1,
        oldest_at=clock.now() - 1,
        lease=lease(clock.now() + SECOND),
        failed=(Failure(5, "no\x00pe"), Failure(10, "")),
        messages_consumed=10,
        batches_consumed=3,
        last_consumed_at=clock.now(),
    )

    await commit_one(store, change(alice, 0, state))

    assert await consumer(store, alice) == state


async def test_an_update_that_expects_the_present_version_replaces_the_state(
    store: Store, alice: Partition
) -> None:
    await commit_one(store, change(alice, 0, ConsumerState(version=1, cursor=1, attempt=9)))

    outcome = await commit_one(store, change(alice, 1, ConsumerState(version=2, cursor=2)))

    assert outcome == APPLIED
    assert await consumer(store, alice) == ConsumerState(version=2, cursor=2)


async def test_an_update_that_expects_an_older_version_is_stale_and_changes_nothing(
    store: Store, alice: Partition
) -> None:
    await commit_one(store, change(alice, 0, ConsumerState(version=1)))
    await commit_one(store, change(alice, 1, ConsumerState(version=2, cursor=2)))

    outcome = await commit_one(store, change(alice, 1, ConsumerState(version=2, cursor=9)))

    assert outcome == Stale()
    assert await consumer(store, alice) == ConsumerState(version=2, cursor=2)


async def test_an_update_that_expects_no_state_is_stale_if_there_is_one(
    store: Store, alice: Partition
) -> None:
    await commit_one(store, change(alice, 0, ConsumerState(version=1, cursor=1)))

    outcome = await commit_one(store, change(alice, 0, ConsumerState(version=1, cursor=5)))

    assert outcome == Stale()
    assert await consumer(store, alice) == ConsumerState(version=1, cursor=1)


async def test_an_update_that_expects_a_state_is_stale_if_there_is_none(
    store: Store, alice: Partition
) -> None:
    outcome = await commit_one(store, change(alice, 1, ConsumerState(version=2)))

    assert outcome == Stale()
    assert await consumer(store, alice) is None


async def test_of_two_updates_in_one_commit_that_expect_the_same_the_first_wins(
    store: Store, alice: Partition
) -> None:
    done = await store.commit(
        [
            change(alice, 0, ConsumerState(version=1, cursor=1)),
            change(alice, 0, ConsumerState(version=1, cursor=2)),
        ]
    )

    assert done.outcomes == [APPLIED, Stale()]
    assert await consumer(store, alice) == ConsumerState(version=1, cursor=1)


async def test_an_update_sees_the_ones_before_it_in_the_same_commit(
    store: Store, alice: Partition
) -> None:
    steps = [change(alice, n, ConsumerState(version=n + 1, cursor=n)) for n in range(3)]

    done = await store.commit(steps)

    assert done.outcomes == [APPLIED] * 3
    assert await consumer(store, alice) == ConsumerState(version=3, cursor=2)


async def test_an_update_does_not_see_a_refused_one_before_it(
    store: Store, alice: Partition, bob: Partition
) -> None:
    refused = Change(
        consumers=(
            update(alice, 0, ConsumerState(version=1, cursor=7)),
            update(bob, 5, ConsumerState(version=6)),
        )
    )

    done = await store.commit([refused, change(alice, 0, ConsumerState(version=1, cursor=1))])

    assert done.outcomes == [Stale(), APPLIED]
    assert await consumer(store, alice) == ConsumerState(version=1, cursor=1)
    assert await consumer(store, bob) is None


async def test_groups_and_partitions_have_states_of_their_own(
    store: Store, orders: Queue, alice: Partition, bob: Partition
) -> None:
    states = {
        (alice.number, "a"): ConsumerState(version=1, cursor=1),
        (alice.number, "ab"): ConsumerState(version=1, cursor=2),
        (alice.number, "größe 😀"): ConsumerState(version=1, cursor=3),
        (bob.number, "a"): ConsumerState(version=1, cursor=4),
    }
    by_number = {alice.number: alice, bob.number: bob}
    await subscribe(store, orders, "a", "ab", "größe 😀")

    await store.commit(
        [change(by_number[at], 0, state, group=group) for (at, group), state in states.items()]
    )

    found = list(await store.consumers(orders.number))
    assert sorted(found) == sorted(StoredConsumer(*at, state) for at, state in states.items())


async def test_the_consumers_of_a_queue_are_not_those_of_the_next(
    store: Store, orders: Queue, alice: Partition
) -> None:
    other = await make_queue(store, "other")
    there = await make_partition(store, other)
    await commit_one(store, change(alice, 0, ConsumerState(version=1)))

    await commit_one(store, change(there, 0, ConsumerState(version=1, cursor=8)))

    assert [c.partition for c in await store.consumers(orders.number)] == [alice.number]
    assert [c.partition for c in await store.consumers(other.number)] == [there.number]


async def test_an_update_under_a_lease_is_applied_while_the_lease_lasts(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    until = clock.now() + 30 * SECOND
    await commit_one(store, change(alice, 0, ConsumerState(version=1, lease=lease(until))))
    clock.set(until - 1)

    outcome = await commit_one(
        store, change(alice, 1, ConsumerState(version=2, cursor=1), under="a")
    )

    assert outcome == APPLIED
    assert await consumer(store, alice) == ConsumerState(version=2, cursor=1)


async def test_an_update_under_a_lease_is_refused_from_the_instant_it_ends(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    until = clock.now() + 30 * SECOND
    held = ConsumerState(version=1, lease=lease(until))
    await commit_one(store, change(alice, 0, held))
    clock.set(until)

    outcome = await commit_one(
        store, change(alice, 1, ConsumerState(version=2, cursor=1), under="a")
    )

    assert outcome == Expired()
    assert await consumer(store, alice) == held


async def test_an_update_under_a_lease_is_refused_if_nobody_holds_one(
    store: Store, alice: Partition
) -> None:
    await commit_one(store, change(alice, 0, ConsumerState(version=1)))

    outcome = await commit_one(
        store, change(alice, 1, ConsumerState(version=2, cursor=1), under="a")
    )

    assert outcome == Expired()
    assert await consumer(store, alice) == ConsumerState(version=1)


async def test_an_expired_lease_may_be_taken_over(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    await commit_one(
        store, change(alice, 0, ConsumerState(version=1, lease=lease(clock.now() + SECOND)))
    )
    clock.advance(2)
    mine = ConsumerState(version=2, lease=lease(clock.now() + SECOND, "mine"))

    outcome = await commit_one(store, change(alice, 1, mine))

    assert outcome == APPLIED
    assert await consumer(store, alice) == mine


async def test_the_lease_that_counts_is_the_present_one_not_the_one_written(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    await commit_one(
        store, change(alice, 0, ConsumerState(version=1, lease=lease(clock.now() + SECOND)))
    )
    clock.advance(2)
    prolonged = ConsumerState(version=2, lease=lease(clock.now() + 60 * SECOND))

    outcome = await commit_one(store, change(alice, 1, prolonged, under="a"))

    assert outcome == Expired()


async def test_a_lease_given_earlier_in_the_same_commit_counts(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    taken = ConsumerState(version=1, lease=lease(clock.now() + SECOND))

    done = await store.commit(
        [
            change(alice, 0, taken),
            change(alice, 1, ConsumerState(version=2, cursor=1), under="a"),
            change(alice, 2, ConsumerState(version=3, cursor=2), under="a"),
        ]
    )

    assert done.outcomes == [APPLIED, APPLIED, Expired()]
    assert await consumer(store, alice) == ConsumerState(version=2, cursor=1)


async def test_an_expired_update_takes_the_pushes_of_its_change_with_it_and_no_others(
    store: Store, clock: ManualClock, alice: Partition, bob: Partition
) -> None:
    await commit_one(
        store, change(alice, 0, ConsumerState(version=1, lease=lease(clock.now() + SECOND)))
    )
    clock.advance(1)
    late = Change(
        appends=(append(bob, columns(b"late")),),
        consumers=(update(alice, 1, ConsumerState(version=2), under="a"),),
    )

    done = await store.commit([late, push(bob, b"other")])

    assert [type(outcome) for outcome in done.outcomes] == [Expired, Applied]
    assert await payloads(store, bob) == [b"other"]


async def test_a_change_with_one_stale_update_of_two_applies_neither(
    store: Store, alice: Partition, bob: Partition
) -> None:
    await commit_one(store, change(bob, 0, ConsumerState(version=1)))
    both = Change(
        consumers=(
            update(alice, 0, ConsumerState(version=1)),
            update(bob, 0, ConsumerState(version=1)),
        )
    )

    outcome = await commit_one(store, both)

    assert outcome == Stale()
    assert await consumer(store, alice) is None


async def test_an_update_for_a_partition_that_is_not_there_is_gone(
    store: Store, orders: Queue
) -> None:
    nowhere = Partition(number=UNKNOWN, queue=orders.number, name="x", created_at=0)

    outcome = await commit_one(store, change(nowhere, 0, ConsumerState(version=1)))

    assert outcome == Gone()
    assert list(await store.consumers(orders.number)) == []


async def test_an_update_from_before_a_group_was_forgotten_and_came_back_is_stale(
    store: Store, alice: Partition
) -> None:
    await store.delete_group(alice.queue, "billing")
    await store.subscribe(
        Subscription(
            id="2nd", queue=alice.queue, group="billing", mode="new", from_at=None, created_at=0
        ),
        [StoredConsumer(alice.number, "billing", ConsumerState(version=1, cursor=7))],
    )
    late = update(alice, 1, ConsumerState(version=2, cursor=3))

    outcomes = [
        await commit_one(store, Change(consumers=(late,))),
        await commit_one(store, Change(consumers=(replace(late, subscription="2nd"),))),
    ]

    assert outcomes == [Stale(), APPLIED]


async def test_an_update_of_a_group_that_is_not_subscribed_is_gone_with_its_whole_change(
    store: Store, orders: Queue, alice: Partition
) -> None:
    stranger = Change(
        appends=(append(alice, columns(b"a")),),
        consumers=(update(alice, 0, ConsumerState(version=1), group="stranger"),),
    )

    outcome = await commit_one(store, stranger)

    assert outcome == Gone()
    assert await payloads(store, alice) == []
    assert list(await store.consumers(orders.number)) == []


async def test_a_late_update_does_not_bring_a_deleted_group_back(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await commit_one(store, change(alice, 0, ConsumerState(version=1)))
    await store.delete_group(orders.number, "billing")

    late = [
        await commit_one(store, change(alice, expected, ConsumerState(version=expected + 1)))
        for expected in (0, 1)
    ]

    assert not any(isinstance(outcome, Applied) for outcome in late)
    assert await consumer(store, alice) is None


async def test_an_update_for_a_deleted_queue_is_not_applied(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await commit_one(store, change(alice, 0, ConsumerState(version=1)))
    await store.delete_queue(orders.number)

    late = await commit_one(store, change(alice, 1, ConsumerState(version=2)))
    new = await commit_one(store, change(alice, 0, ConsumerState(version=1)))

    assert not isinstance(late, Applied)
    assert new == Gone()
    assert list(await store.consumers(orders.number)) == []


async def test_an_update_that_is_based_on_another_write_of_the_same_version_is_stale(
    store: Store, alice: Partition
) -> None:
    theirs = ConsumerState(version=1, cursor=1, token=5)
    await commit_one(store, Change(consumers=(update(alice, 0, theirs),)))
    built_on_ours = replace(
        update(alice, 1, ConsumerState(version=2, cursor=9)), expected=Revision(1, 6)
    )

    outcome = await commit_one(store, Change(consumers=(built_on_ours,)))

    assert outcome == Stale()
    assert await consumer(store, alice) == theirs


async def test_an_update_under_a_lease_needs_that_very_lease(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    held = ConsumerState(version=1, run_end=1, lease=lease(clock.now() + 30 * SECOND, "theirs"))
    await commit_one(store, Change(consumers=(update(alice, 0, held),)))

    refused = await commit_one(store, change(alice, 1, ConsumerState(version=2), under="ours"))
    applied = await commit_one(store, change(alice, 1, ConsumerState(version=2), under="theirs"))

    assert (refused, applied) == (Expired(), APPLIED)
