"""Transactions: pushes, acks and extensions that happen together or not at all, and once."""

import asyncio
from uuid import uuid4

import pytest

from skep import (
    Ack,
    Broker,
    Delivery,
    Draft,
    Extend,
    KeyRing,
    Push,
    Transaction,
    Verdict,
)
from skep.errors import Invalid, KeyReused, LeaseLost, QueueFull
from skep.model.operation import Operation, Status
from skep.store.memory import MemoryStore
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    Settled,
    backlogs,
    cursors,
    dead,
    drafts,
    finish,
    lease_of,
    letters,
    make_broker,
    offsets,
    payloads,
    pop,
    start,
)
from tests.support.executed_lines import lines_of
from tests.support.gated_store import GatedStore

DAY = 86_400


def say(delivery: Delivery, status: Status, *which: int) -> list[Verdict]:
    return [
        Verdict(delivery.messages[index].partition_number, delivery.messages[index].offset, status)
        for index in which
    ]


async def contents(queue: Broker, name: str) -> dict[str, int]:
    """How many messages each partition of a queue holds; nothing if there is no such queue."""
    if name not in [known.name for known in await queue.queues.list()]:
        return {}
    return {each.name: each.end for each in await queue.queues.partitions(name) if each.end}


async def lost_lease(queue: Broker, clock: ManualClock) -> str:
    """A lease that has run out."""
    await queue.push("lost", drafts(1))
    delivery = await pop(queue, "lost", lease_seconds=1)
    clock.advance(1)
    return lease_of(delivery)


async def test_a_transaction_pushes_and_acks_together(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)

    done = await queue.transact([Push("invoices", drafts(2, "alice")), Ack(lease_of(delivery))])

    assert [(r.partition, r.offset) for r in done.receipts[0]] == [("alice", 0), ("alice", 1)]
    assert done.settlements == [Settled(completed=2, released=True)]
    assert not done.repeated
    assert await cursors(queue) == {"Default": 2}
    assert payloads(await pop(queue, "invoices", batch=2)) == [b"0", b"1"]


async def test_a_transaction_may_push_to_several_queues_and_partitions(queue: Broker) -> None:
    done = await queue.transact(
        [
            Push("invoices", [*drafts(1, "alice"), *drafts(1, "bob"), *drafts(1, "alice")]),
            Push("mails", drafts(2)),
            Push("invoices", drafts(1, "bob")),
        ]
    )

    assert [[(r.partition, r.offset) for r in some] for some in done.receipts] == [
        [("alice", 0), ("bob", 0), ("alice", 1)],
        [("Default", 0), ("Default", 1)],
        [("bob", 1)],
    ]
    assert await contents(queue, "invoices") == {"alice": 2, "bob": 2}
    assert await contents(queue, "mails") == {"Default": 2}


async def test_a_transaction_may_ack_several_leases(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    billing = await pop(queue, group="billing", batch=2)
    mail = await pop(queue, group="mail", batch=1)

    done = await queue.transact([Ack(lease_of(billing)), Ack(lease_of(mail))])

    assert [settlement.completed for settlement in done.settlements] == [2, 1]
    assert await cursors(queue, group="billing") == {"Default": 2}
    assert await cursors(queue, group="mail") == {"Default": 1}


async def test_acks_of_one_lease_in_a_transaction_add_up(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)
    lease = lease_of(delivery)

    done = await queue.transact(
        [
            Ack(lease, say(delivery, "completed", 2)),
            Ack(lease, say(delivery, "failed", 1)),
            Ack(lease, say(delivery, "completed", 0)),
        ]
    )

    assert [(s.completed, s.dead_letters) for s in done.settlements] == [(1, 0), (0, 1), (1, 0)]
    assert await cursors(queue) == {"Default": 3}
    assert await dead(queue) == [b"1"]


async def test_a_lease_that_the_transaction_itself_ended_cannot_be_acked_in_it_again(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    lease = lease_of(delivery)

    with pytest.raises(LeaseLost):
        await queue.transact([Ack(lease), Ack(lease, say(delivery, "completed", 0))])

    assert await cursors(queue) == {"Default": 0}


async def test_a_transaction_extends_a_lease(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2, lease_seconds=10)

    await queue.transact(
        [
            Extend(lease_of(delivery), 60),
            Ack(lease_of(delivery), say(delivery, "completed", 0)),
        ]
    )

    clock.advance(59)
    assert await queue.ack(delivery) == Settled(completed=1, released=True)


async def test_a_transaction_with_one_lost_lease_writes_nothing(
    queue: Broker, clock: ManualClock
) -> None:
    lost = await lost_lease(queue, clock)
    await queue.queues.configure("invoices")
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2, lease_seconds=10)

    with pytest.raises(LeaseLost) as refused:
        await queue.transact(
            [
                Push("invoices", drafts(1)),
                Ack(lease_of(delivery)),
                Extend(lease_of(delivery), 600),
                Ack(lost),
            ]
        )

    assert refused.value.lease_id in (lost, delivery.lease_id)
    assert await contents(queue, "invoices") == {}
    assert await backlogs(queue) == {"Default": 2}
    clock.advance(10)
    assert offsets(await pop(queue, batch=2)) == [0, 1]


async def test_a_transaction_whose_lease_expires_before_its_commit_writes_nothing(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("invoices", drafts(1))
    await queue.push("orders", drafts(1))
    lease = lease_of(await pop(queue, lease_seconds=10))
    transaction = asyncio.create_task(queue.transact([Push("invoices", drafts(1)), Ack(lease)]))
    await asyncio.sleep(0)

    clock.advance(10)  # it is on its way, and the store judges by its own clock

    with pytest.raises(LeaseLost):
        await transaction
    assert await contents(queue, "invoices") == {"Default": 1}
    assert await backlogs(queue) == {"Default": 1}


async def test_a_transaction_whose_lease_is_lost_makes_no_queue(
    queue: Broker, clock: ManualClock
) -> None:
    lost = await lost_lease(queue, clock)

    with pytest.raises(LeaseLost):
        await queue.transact([Push("invoices", drafts(1)), Ack(lost)])

    assert [known.name for known in await queue.queues.list()] == ["lost"]


async def test_a_transaction_with_a_lost_lease_to_extend_writes_nothing(
    queue: Broker, clock: ManualClock
) -> None:
    lost = await lost_lease(queue, clock)
    await queue.queues.configure("invoices")

    with pytest.raises(LeaseLost):
        await queue.transact([Push("invoices", drafts(1)), Extend(lost, 60)])

    assert await contents(queue, "invoices") == {}


async def test_a_transaction_needs_its_required_leases_alive(
    queue: Broker, clock: ManualClock
) -> None:
    lost = await lost_lease(queue, clock)
    await queue.queues.configure("invoices")

    with pytest.raises(LeaseLost):
        await queue.transact([Push("invoices", drafts(1))], required_leases=[lost])

    assert await contents(queue, "invoices") == {}


async def test_a_required_lease_that_never_was_stops_a_transaction(queue: Broker) -> None:
    await queue.queues.configure("invoices")

    with pytest.raises(LeaseLost):
        await queue.transact([Push("invoices", drafts(1))], required_leases=[str(uuid4())])

    assert await contents(queue, "invoices") == {}


@pytest.mark.one_server("servers know nothing of what is under way elsewhere")
async def test_a_required_lease_that_an_ack_on_its_way_ends_stops_a_transaction(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(1))
    await queue.push("invoices", drafts(1))
    delivery = await pop(queue)
    ack = asyncio.create_task(queue.ack(delivery))
    await asyncio.sleep(0)

    with pytest.raises(LeaseLost):
        await queue.transact([Push("invoices", drafts(1))], required_leases=[lease_of(delivery)])

    assert (await ack).released
    assert await contents(queue, "invoices") == {"Default": 1}


async def test_a_lease_may_be_required_and_extended_by_the_transaction_that_ends_it(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    lease = lease_of(delivery)

    done = await queue.transact([Ack(lease), Extend(lease, 60)], required_leases=[lease])

    assert done.settlements == [Settled(completed=1, released=True)]
    assert await backlogs(queue) == {"Default": 0}


async def test_a_required_lease_is_held_on_after_the_transaction(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue, lease_seconds=10)

    await queue.transact([Push("invoices", drafts(1))], required_leases=[lease_of(delivery)])

    assert await contents(queue, "invoices") == {"Default": 1}
    assert await queue.pop("orders") is None
    clock.advance(10)
    assert offsets(await pop(queue)) == [0]


async def test_a_transaction_refused_for_one_message_writes_nothing(queue: Broker) -> None:
    await queue.queues.configure("invoices")
    await queue.push("orders", drafts(2))
    delivery = await pop(queue)
    (message,) = delivery.messages
    beyond = Verdict(message.partition_number, 1)

    with pytest.raises(Invalid):
        await queue.transact([Push("invoices", drafts(1)), Ack(lease_of(delivery), [beyond])])

    assert await contents(queue, "invoices") == {}
    assert await backlogs(queue) == {"Default": 2}


async def test_a_transaction_that_does_not_fit_in_a_queue_writes_nothing(queue: Broker) -> None:
    await queue.queues.configure("invoices", max_size=1)
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)

    with pytest.raises(QueueFull):
        await queue.transact(
            [
                Ack(lease_of(delivery)),
                Push("mails", drafts(1)),
                Push("invoices", drafts(2)),
            ]
        )

    assert await contents(queue, "mails") == {}
    assert await contents(queue, "invoices") == {}
    assert await queue.ack(delivery) == Settled(completed=1, released=True)


async def test_a_transaction_counts_all_its_pushes_to_a_queue_together(queue: Broker) -> None:
    await queue.queues.configure("invoices", max_size=3)

    with pytest.raises(QueueFull):
        await queue.transact([Push("invoices", drafts(2)), Push("invoices", drafts(2))])

    assert await contents(queue, "invoices") == {}
    assert len(await queue.push("invoices", drafts(3))) == 3


async def test_a_failure_in_a_transaction_counts_like_any_other(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)

    done = await queue.transact(
        [
            Push("alarms", drafts(1)),
            Ack(lease_of(delivery), say(delivery, "failed", 0, 1)),
        ]
    )

    assert done.settlements == [Settled(dead_letters=2, released=True)]
    assert await dead(queue) == [b"0", b"1"]
    assert await contents(queue, "alarms") == {"Default": 1}


async def test_a_refused_transaction_makes_no_dead_letters(
    queue: Broker, clock: ManualClock
) -> None:
    lost = await lost_lease(queue, clock)
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)

    with pytest.raises(LeaseLost):
        await queue.transact([Ack(lease_of(delivery), say(delivery, "failed", 0)), Ack(lost)])

    assert await letters(queue) == []


async def test_a_duplicate_in_a_transaction_is_fine(queue: Broker) -> None:
    await queue.push("invoices", [Draft(b"first", "alice", "invoice-1")])
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)

    done = await queue.transact(
        [
            Push(
                "invoices",
                [Draft(b"again", "alice", "invoice-1"), Draft(b"x", "alice", "invoice-2")],
            ),
            Ack(lease_of(delivery)),
        ]
    )

    assert [(r.offset, r.duplicate) for r in done.receipts[0]] == [(0, True), (1, False)]
    assert await cursors(queue) == {"Default": 1}


async def test_the_producer_of_a_transaction_is_that_of_its_messages(queue: Broker) -> None:
    await queue.transact([Push("invoices", drafts(1))], producer="till")

    delivery = await pop(queue, "invoices")

    assert [message.producer for message in delivery.messages] == ["till"]


async def test_of_two_transactions_with_one_lease_only_one_happens(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    lease = lease_of(await pop(queue))

    results = await asyncio.gather(
        queue.transact([Push("invoices", drafts(1)), Ack(lease)]),
        queue.transact([Push("invoices", drafts(1)), Ack(lease)]),
        return_exceptions=True,
    )

    assert [isinstance(result, LeaseLost) for result in results].count(True) == 1
    assert await contents(queue, "invoices") == {"Default": 1}


# Once.


async def test_a_repeated_transaction_happens_once_and_gets_the_same_receipts(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(1))
    lease = lease_of(await pop(queue))
    operations: list[Operation] = [
        Push("invoices", [*drafts(2, "alice"), *drafts(1, "bob")]),
        Ack(lease),
    ]
    first = await queue.transact(operations, idempotency_key="order-1")

    again = await queue.transact(operations, idempotency_key="order-1")

    assert again.receipts == first.receipts
    assert again.repeated
    assert await contents(queue, "invoices") == {"alice": 2, "bob": 1}
    assert await cursors(queue) == {"Default": 1}


async def test_a_repetition_is_answered_long_after_its_lease_is_gone(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    lease = lease_of(await pop(queue, lease_seconds=10))
    operations: list[Operation] = [Push("invoices", drafts(1)), Ack(lease)]
    first = await queue.transact(operations, required_leases=[lease], idempotency_key="k")
    clock.advance(DAY - 1)
    await queue.sweep()

    again = await queue.transact(operations, required_leases=[lease], idempotency_key="k")

    assert (again.receipts, again.repeated) == (first.receipts, True)


async def test_the_same_transaction_many_times_at_once_happens_once(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    lease = lease_of(await pop(queue))
    operations: list[Operation] = [Push("invoices", drafts(1)), Ack(lease)]

    results = await asyncio.gather(
        *(queue.transact(operations, idempotency_key="k") for _ in range(10))
    )

    assert sorted(result.repeated for result in results) == [False] + [True] * 9
    assert {result.receipts[0][0].id for result in results} == {results[0].receipts[0][0].id}
    assert await contents(queue, "invoices") == {"Default": 1}


async def test_a_repetition_gets_the_same_receipts_for_duplicates_too(queue: Broker) -> None:
    await queue.push("invoices", [Draft(b"x", "alice", "invoice-1")])
    operations: list[Operation] = [
        Push("invoices", [Draft(b"x", "alice", "invoice-1"), Draft(b"y", "alice")])
    ]
    first = await queue.transact(operations, idempotency_key="k")

    again = await queue.transact(operations, idempotency_key="k")

    assert again.receipts == first.receipts
    assert [receipt.duplicate for receipt in again.receipts[0]] == [True, False]


async def test_a_repetition_gets_the_same_receipts_from_an_encrypted_queue_too(
    store: Store,
) -> None:
    async with make_broker(store, keys=KeyRing({"a": bytes(32)}, current="a")) as queue:
        await queue.queues.configure("invoices", encryption_enabled=True)
        operations: list[Operation] = [Push("invoices", drafts(2))]
        first = await queue.transact(operations, idempotency_key="k")

        again = await queue.transact(operations, idempotency_key="k")

        assert again.receipts == first.receipts


async def test_a_repetition_that_shows_at_the_commit_gets_the_ids_of_the_first_time(
    store: Store,
) -> None:
    keys = KeyRing({"2030": bytes(32)}, current="2030")
    async with make_broker(store, keys=keys) as one:
        await one.queues.configure("invoices", encryption_enabled=True)
        await one.push("invoices", drafts(1))
        async with make_broker(store, keys=keys) as other:
            # Two servers are asked at once: neither finds the key before it commits.
            asked = [Push("invoices", drafts(2))]
            results = await asyncio.gather(
                *(server.transact(asked, idempotency_key="k") for server in (one, other))
            )

            assert sorted(result.repeated for result in results) == [False, True]
            assert results[0].receipts[0] == results[1].receipts[0]


async def test_a_repetition_after_a_call_that_was_cancelled_gets_its_answer(
    held: GatedStore,
) -> None:
    async with make_broker(held) as queue:
        await queue.push("orders", drafts(1))
        await queue.push("invoices", drafts(1))
        lease = lease_of(await pop(queue))
        operations: list[Operation] = [Ack(lease), Push("invoices", drafts(1))]
        held.hold()
        cancelled = await start(queue.transact(operations, idempotency_key="k"))
        cancelled.cancel()
        await asyncio.wait([cancelled])

        again = await start(queue.transact(operations, idempotency_key="k"))
        held.release()

        result = await finish(again)
        assert (result.repeated, result.receipts[0][0].offset) == (True, 1)
        assert await contents(queue, "invoices") == {"Default": 2}


async def test_a_key_that_is_used_for_another_transaction_is_refused(queue: Broker) -> None:
    await queue.transact([Push("invoices", drafts(1))], idempotency_key="k")

    with pytest.raises(KeyReused) as refused:
        await queue.transact([Push("invoices", drafts(1, first=7))], idempotency_key="k")

    assert refused.value.key == "k"
    assert await contents(queue, "invoices") == {"Default": 1}


async def test_of_different_transactions_with_one_key_at_once_one_is_refused(
    queue: Broker,
) -> None:
    results = await asyncio.gather(
        queue.transact([Push("invoices", drafts(1))], idempotency_key="k"),
        queue.transact([Push("invoices", drafts(2))], idempotency_key="k"),
        return_exceptions=True,
    )

    (happened,) = [result for result in results if isinstance(result, Transaction)]
    assert [isinstance(result, KeyReused) for result in results].count(True) == 1
    assert await contents(queue, "invoices") == {"Default": len(happened.receipts[0])}


async def test_a_transaction_that_was_refused_does_not_use_its_key_up(
    queue: Broker, clock: ManualClock
) -> None:
    lost = await lost_lease(queue, clock)
    with pytest.raises(LeaseLost):
        await queue.transact([Push("invoices", drafts(1)), Ack(lost)], idempotency_key="k")

    done = await queue.transact([Push("invoices", drafts(1))], idempotency_key="k")

    assert not done.repeated
    assert await contents(queue, "invoices") == {"Default": 1}


async def test_different_keys_are_different_transactions(queue: Broker) -> None:
    operations: list[Operation] = [Push("invoices", drafts(1))]
    await queue.transact(operations, idempotency_key="a")

    done = await queue.transact(operations, idempotency_key="b")

    assert not done.repeated
    assert await contents(queue, "invoices") == {"Default": 2}


async def test_a_key_is_free_again_after_a_day(queue: Broker, clock: ManualClock) -> None:
    await queue.transact([Push("invoices", drafts(1))], idempotency_key="k")
    clock.advance(DAY + 1)
    await queue.sweep()

    done = await queue.transact([Push("invoices", drafts(2))], idempotency_key="k")

    assert not done.repeated
    assert await contents(queue, "invoices") == {"Default": 3}


async def test_a_transaction_without_a_key_happens_every_time(queue: Broker) -> None:
    operations: list[Operation] = [Push("invoices", drafts(1))]
    await queue.transact(operations)

    await queue.transact(operations)

    assert await contents(queue, "invoices") == {"Default": 2}


@pytest.mark.parametrize("max_size", [0, 10])
async def test_a_transaction_with_twice_as_many_queues_is_twice_the_work(
    clock: ManualClock, max_size: int
) -> None:
    async def work(count: int) -> int:
        async with make_broker(MemoryStore(clock=clock)) as queue:
            pushes = [Push(f"queue-{number}", [Draft(b"")]) for number in range(count)]
            for each in pushes:
                await queue.queues.create(each.queue, max_size=max_size)
            return await lines_of(queue.transact(pushes))

    few, many = await work(100), await work(200)

    assert many < 2.1 * few
