"""What happens while the store is slow, and when it fails.

The store is the one in memory behind a gate: a commit waits there until the test opens it.
"""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from skep import Broker, Delivery, Draft, Limits, Verdict
from skep.core.log.committer import ROUND_BYTES, ROUND_CHANGES
from skep.core.state.catalogue import STEP
from skep.errors import Closed, OutcomeUnknown, Overloaded, Unavailable
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    drafts,
    finish,
    long_poll,
    make_broker,
    payloads,
    pop,
    pop_all,
    start,
    turn,
)
from tests.support.gated_store import GatedStore

KB = 1 << 10
NARROW = Limits(pending_bytes=12 * KB)


@pytest.fixture
async def queue(held: GatedStore) -> AsyncIterator[Broker]:
    async with make_broker(held) as broker:
        yield broker
        held.release()


@pytest.fixture
async def narrow(held: GatedStore) -> AsyncIterator[Broker]:
    """A broker that holds very little for the store."""
    async with make_broker(held, limits=NARROW) as broker:
        yield broker
        held.release()


@pytest.fixture
def no_collection() -> Iterator[None]:
    """What lies in a circle stays."""
    gc.disable()
    yield
    gc.enable()


def large(kilobytes: int = 4, partition: str = "alice") -> list[Draft]:
    return [Draft(b"x" * kilobytes * KB, partition)]


def given_up(delivery: Delivery) -> list[Verdict]:
    """Verdicts with a long reason for each message of a delivery."""
    return [
        Verdict(message.partition_number, message.offset, "dead_letter", "x" * 2000)
        for message in delivery.messages
    ]


# What waits is bounded.


async def test_a_push_is_refused_when_more_waits_for_the_store_than_may(
    narrow: Broker, held: GatedStore
) -> None:
    held.hold()
    taken = [await start(narrow.push("orders", large())) for _ in range(2)]

    with pytest.raises(Overloaded) as refused:
        await narrow.push("orders", large())

    assert refused.value.retry_after > 0
    assert isinstance(refused.value, Unavailable)
    held.release()
    assert [(await push)[0].offset for push in taken] == [0, 1]
    assert (await narrow.queues.stats("orders")).pushed == 2


async def test_the_data_of_a_trace_counts_in_what_waits(narrow: Broker, held: GatedStore) -> None:
    (receipt,) = await narrow.push("orders", drafts(1))
    held.hold()
    taken = await start(narrow.traces.record(receipt.id, "charged", b"x" * 8 * KB))

    with pytest.raises(Overloaded):
        await narrow.traces.record(receipt.id, "charged", b"x" * 8 * KB)

    held.release()
    await taken
    assert len(await narrow.traces.events(receipt.id)) == 1


async def test_the_reasons_of_dead_letters_count_in_what_waits(
    narrow: Broker, held: GatedStore
) -> None:
    await narrow.push("orders", [*drafts(5, "alice"), *drafts(5, "bob")])
    first, second = await pop(narrow, batch=5), await pop(narrow, batch=5)
    held.hold()
    taken = await start(narrow.settle(first, given_up(first)))

    with pytest.raises(Overloaded):
        await narrow.settle(second, given_up(second))

    held.release()
    assert (await taken).dead_letters == 5


async def test_the_commit_under_way_counts_until_it_has_returned(
    narrow: Broker, held: GatedStore
) -> None:
    held.hold_answers()
    first = await start(narrow.push("orders", large(8)))

    with pytest.raises(Overloaded):
        await narrow.push("orders", large())

    held.release()
    await first


async def test_there_is_room_again_when_the_store_has_caught_up(
    narrow: Broker, held: GatedStore
) -> None:
    held.hold()
    first = await start(narrow.push("orders", large(8)))
    with pytest.raises(Overloaded):
        await narrow.push("orders", large())

    held.release()
    await first

    assert (await narrow.push("orders", large(8)))[0].offset == 1


async def test_there_is_room_again_after_a_commit_failed(narrow: Broker, held: GatedStore) -> None:
    held.fail_next()
    with pytest.raises(OutcomeUnknown):
        await narrow.push("orders", large(11))

    receipts = [await narrow.push("orders", large(11)) for _ in range(3)]

    assert [receipt.offset for (receipt,) in receipts] == [0, 1, 2]


async def test_one_push_may_be_larger_than_the_limit_when_nothing_waits(narrow: Broker) -> None:
    receipts = await narrow.push("orders", large(100))

    assert len(receipts) == 1


async def test_many_small_pushes_are_bounded_too(narrow: Broker, held: GatedStore) -> None:
    held.hold()
    pushes = [asyncio.create_task(narrow.push("orders", drafts(1))) for _ in range(100)]
    await turn()

    refused = [push for push in pushes if push.done()]
    held.release()
    found = await asyncio.gather(*pushes, return_exceptions=True)

    assert 80 < len(refused) < 100
    assert [type(result) for result in found].count(Overloaded) == len(refused)


async def test_a_push_that_is_refused_makes_no_queue_and_no_partition(
    narrow: Broker, held: GatedStore
) -> None:
    await narrow.push("orders", drafts(1, "alice"))
    held.hold()
    first = await start(narrow.push("orders", large(8)))

    for name, partition in (("orders", "bob"), ("invoices", "alice")):
        with pytest.raises(Overloaded):
            await narrow.push(name, large(4, partition))

    held.release()
    await first
    assert [found.name for found in await narrow.queues.list()] == ["orders"]
    assert [found.name for found in await narrow.queues.partitions("orders")] == ["alice"]


async def test_a_pop_that_is_refused_leaves_the_messages_to_the_next(
    narrow: Broker, held: GatedStore
) -> None:
    await narrow.push("orders", drafts(1, "alice"))
    held.hold()
    first = await start(narrow.push("orders", large(11)))
    with pytest.raises(Overloaded):
        await narrow.pop("orders")

    held.release()
    await first

    assert payloads(await narrow.pop("orders")) == [b"0"]


async def test_an_ack_that_is_refused_can_be_repeated(narrow: Broker, held: GatedStore) -> None:
    await narrow.push("orders", drafts(1, "alice"))
    delivery = await pop(narrow)
    held.hold()
    first = await start(narrow.push("orders", large(11)))
    with pytest.raises(Overloaded):
        await narrow.ack(delivery)

    held.release()
    await first

    assert (await narrow.ack(delivery)).completed == 1


# What arrives during a commit goes into the next one.


async def test_an_idle_broker_commits_at_once(queue: Broker, held: GatedStore) -> None:
    await queue.push("orders", drafts(1))
    await queue.push("orders", drafts(1))

    assert held.rounds == [1, 1]


async def test_what_arrives_during_a_commit_goes_into_one_next_commit(
    queue: Broker, held: GatedStore
) -> None:
    held.hold()
    first = await start(queue.push("orders", drafts(1)))
    others = [await start(queue.push("orders", drafts(2, f"p{n}"))) for n in range(5)]

    held.release()
    await asyncio.gather(first, *others)

    assert held.rounds == [1, 5]


async def test_a_push_a_pop_and_an_ack_share_a_commit(queue: Broker, held: GatedStore) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
    delivery = await pop(queue)
    held.hold()
    held.rounds.clear()
    first = await start(queue.push("orders", drafts(1, "carol")))
    others = [
        await start(queue.push("orders", drafts(1, "dave"))),
        await start(queue.pop("orders")),
        await start(queue.ack(delivery)),
    ]

    held.release()
    await asyncio.gather(first, *others)

    assert held.rounds == [1, 3]


async def test_a_commit_takes_no_more_than_so_many_changes(queue: Broker, held: GatedStore) -> None:
    held.hold()
    first = await start(queue.push("orders", drafts(1)))
    pushes = [queue.push("orders", drafts(1)) for _ in range(ROUND_CHANGES + 500)]
    others = asyncio.gather(*pushes)
    await turn()

    held.release()
    await asyncio.gather(first, others)

    assert held.rounds == [1, ROUND_CHANGES, 500]


async def test_a_commit_takes_no_more_than_so_many_bytes(queue: Broker, held: GatedStore) -> None:
    held.hold()
    half = ROUND_BYTES // KB // 2
    pushes = [await start(queue.push("orders", large(half))) for _ in range(4)]

    held.release()
    await asyncio.gather(*pushes)

    assert held.rounds == [1, 1, 1, 1]


async def test_pushes_are_committed_in_the_order_in_which_they_came(
    queue: Broker, held: GatedStore
) -> None:
    held.hold()
    pushes = [await start(queue.push("orders", drafts(1, first=n))) for n in range(10)]

    held.release()
    await asyncio.gather(*pushes)

    assert await pop_all(queue, batch=10) == [b"%d" % n for n in range(10)]


# Nothing is seen before its commit has returned.


async def seen(queue: Broker) -> list[bytes]:
    """The payloads that can be seen in some way without changing anything."""
    by_partition = await queue.messages.list("orders", partition="Default")
    by_queue = await queue.messages.list("orders")
    by_id = await queue.messages.find("orders", "Default", "t-new")
    found = [*by_partition.messages, *by_queue.messages, *([by_id] if by_id else [])]
    return sorted({message.payload for message in found})


async def push_new(queue: Broker) -> None:
    await queue.push("orders", [Draft(b"new", transaction_id="t-new")])


async def test_a_message_is_not_seen_before_its_commit_has_returned(
    queue: Broker, held: GatedStore
) -> None:
    await queue.push("orders", [Draft(b"old")])
    held.hold_answers()
    push = await start(push_new(queue))

    during = await seen(queue)
    held.release()
    await push

    assert during == [b"old"]
    assert await seen(queue) == [b"new", b"old"]


async def test_a_message_is_not_popped_before_its_commit_has_returned(
    queue: Broker, held: GatedStore
) -> None:
    await queue.pop("orders")
    await queue.push("orders", [Draft(b"old")])
    await pop_all(queue)
    held.hold_answers()
    push = await start(push_new(queue))

    during = await queue.pop("orders")
    held.release()
    await push

    assert during is None
    assert payloads(await queue.pop("orders")) == [b"new"]


async def test_who_waits_is_woken_by_the_commit_not_by_the_push(
    queue: Broker, held: GatedStore
) -> None:
    await queue.push("orders", [Draft(b"old")])
    await pop_all(queue)
    waiting = await start(queue.pop("orders", wait=60))
    held.hold()
    push = await start(push_new(queue))
    assert not waiting.done()

    held.release()
    await push

    assert payloads(await waiting) == [b"new"]


async def test_a_push_is_not_answered_before_its_commit_has_returned(
    queue: Broker, held: GatedStore
) -> None:
    held.hold_answers()
    push = await start(push_new(queue))
    assert not push.done()

    held.release()

    await push


async def test_a_lease_is_not_handed_over_before_its_commit_has_returned(
    queue: Broker, held: GatedStore
) -> None:
    await queue.push("orders", drafts(1))
    held.hold_answers()
    popping = await start(queue.pop("orders"))
    assert not popping.done()

    held.release()

    assert payloads(await popping) == [b"0"]


async def test_an_ack_counts_when_its_commit_has_returned(queue: Broker, held: GatedStore) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    held.hold_answers()
    acking = await start(queue.ack(delivery))
    assert [lag.backlog for lag in await queue.groups.list("orders")] == [1]

    held.release()
    await acking

    assert [lag.backlog for lag in await queue.groups.list("orders")] == [0]


# A commit that fails.


async def test_everybody_in_a_failed_commit_hears_that_the_outcome_is_unknown(
    queue: Broker, held: GatedStore
) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
    delivery = await pop(queue)
    held.hold_answers()
    first = await start(queue.push("orders", drafts(1, "carol")))
    others = [
        await start(queue.push("orders", drafts(1, "dave"))),
        await start(queue.pop("orders")),
        await start(queue.extend(delivery, 60)),
        await start(queue.ack(delivery)),
    ]
    held.fail_next()
    held.release()

    found = await asyncio.gather(first, *others, return_exceptions=True)

    assert [isinstance(result, OutcomeUnknown) for result in found] == [False] + [True] * 4


async def test_nothing_of_a_failed_commit_is_seen(queue: Broker, held: GatedStore) -> None:
    await queue.push("orders", [Draft(b"old")])
    before = await queue.queues.stats("orders")
    held.fail_next()

    with pytest.raises(OutcomeUnknown):
        await push_new(queue)

    assert await seen(queue) == [b"old"]
    assert await queue.queues.stats("orders") == before
    assert await pop_all(queue, batch=10) == [b"old"]


async def test_a_push_that_failed_can_be_repeated(queue: Broker, held: GatedStore) -> None:
    held.fail_next()
    with pytest.raises(OutcomeUnknown):
        await push_new(queue)

    await push_new(queue)

    assert await pop_all(queue, batch=10) == [b"new"]


async def test_a_pop_that_failed_leaves_the_messages_to_the_next(
    queue: Broker, held: GatedStore
) -> None:
    await queue.push("orders", drafts(1))
    held.fail_next()
    with pytest.raises(OutcomeUnknown):
        await queue.pop("orders")

    delivery = await pop(queue)

    assert [message.attempt for message in delivery.messages] == [1]


async def test_an_ack_that_failed_can_be_repeated(queue: Broker, held: GatedStore) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    held.fail_next()
    with pytest.raises(OutcomeUnknown):
        await queue.ack(delivery)

    assert (await queue.ack(delivery)).completed == 1
    assert await queue.pop("orders") is None


# Callers that go, and a broker that closes.


async def test_a_push_whose_caller_has_gone_is_committed_all_the_same(
    queue: Broker, held: GatedStore
) -> None:
    held.hold()
    gone = await start(queue.push("orders", drafts(1)))
    other = await start(queue.push("orders", drafts(1, first=1)))

    gone.cancel()
    held.release()

    assert [receipt.offset for receipt in await other] == [1]
    assert await pop_all(queue, batch=10) == [b"0", b"1"]


async def test_a_broker_that_closes_finishes_what_is_under_way(held: GatedStore) -> None:
    queue = await make_broker(held).__aenter__()
    held.hold()
    pushes = [await start(queue.push("orders", drafts(1))) for _ in range(3)]
    closing = await start(queue.close())
    assert not closing.done()

    with pytest.raises(Closed):
        await queue.push("orders", drafts(1))
    held.release()
    await closing

    assert [(await push)[0].offset for push in pushes] == [0, 1, 2]


async def test_a_woken_poll_that_is_refused_leaves_what_it_was_woken_for_to_the_next(
    narrow: Broker, held: GatedStore, clock: ManualClock
) -> None:
    await narrow.queues.configure("orders")
    for name, priority in (("low", 0), ("high", 1)):
        await narrow.queues.configure(
            name, namespace="shop", priority=priority, delayed_processing=10
        )
        await narrow.push(name, drafts(1))
        clock.advance(1)
    refused = await long_poll(narrow, None, namespace="shop", wait=60)
    low = await long_poll(narrow, "low", wait=60)
    held.hold()
    push = await start(narrow.push("orders", large(12)))

    clock.advance(10)  # wakes the first for the low queue; it asks for the high one
    held.release()

    with pytest.raises(Overloaded):
        await refused
    assert payloads(await finish(low)) == [b"0"]
    await push


async def test_partitions_are_made_together_while_others_are_being_made(
    queue: Broker, held: GatedStore
) -> None:
    held.hold_births()
    names = ["alice", *(f"p{n % 5}" for n in range(10))]
    pushes = [await start(queue.push("orders", drafts(1, name))) for name in names]
    held.release()

    offsets = [(await push)[0].offset for push in pushes]

    assert held.births == [1, 5]
    assert offsets == [0] * 6 + [1] * 5


async def test_very_many_partitions_are_made_in_steps(queue: Broker, held: GatedStore) -> None:
    await queue.push("orders", [Draft(b"x", f"p{n}") for n in range(2 * STEP + 1)])

    assert held.births == [STEP, STEP, 1]


async def test_who_goes_away_takes_no_partition_from_the_others(
    queue: Broker, held: GatedStore
) -> None:
    held.hold_births()
    first = await start(queue.push("orders", drafts(1, "alice")))
    second = await start(queue.push("orders", drafts(1, "alice")))
    first.cancel()
    held.release()

    assert [(await second)[0].offset] == [0]


@pytest.mark.usefixtures("no_collection")
async def test_what_could_not_be_written_is_not_kept(queue: Broker, held: GatedStore) -> None:
    await queue.push("orders", large())
    (draft,) = large()
    before = sys.getrefcount(draft.payload)
    held.fail_next()

    with suppress(OutcomeUnknown):
        await queue.push("orders", [draft])
    await turn()
    after = sys.getrefcount(draft.payload)

    assert after == before
