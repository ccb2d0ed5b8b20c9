"""Closing: whoever waits is answered, what is under way is finished, then nothing is taken."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from skep import Broker, Push
from skep.errors import Closed
from skep.model.name import QUEUE_MODE
from tests.support.broker_builders import (
    drafts,
    finish,
    lease_of,
    long_poll,
    make_broker,
    offsets,
    pop,
    start,
)
from tests.support.gated_store import GatedStore

pytestmark = pytest.mark.one_server("what closes is one server")

Call = Callable[[Broker], Awaitable[object]]


async def test_long_polls_go_home_empty_handed_when_the_broker_closes(queue: Broker) -> None:
    await queue.queues.configure("orders", namespace="shop")
    polls = [
        await long_poll(queue),
        await long_poll(queue, group="mail"),
        await long_poll(queue, partition="alice"),
        await long_poll(queue, "no such queue"),
        await long_poll(queue, None, namespace="shop"),
    ]

    await queue.close()

    assert [await finish(poll) for poll in polls] == [None] * 5


async def test_a_push_under_way_is_finished_before_the_broker_is_closed(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    push = asyncio.create_task(queue.push("orders", drafts(3)))
    await asyncio.sleep(0)

    await queue.close()

    assert [receipt.offset for receipt in await push] == [1, 2, 3]


async def test_many_pushes_under_way_are_all_finished(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    pushes = [asyncio.create_task(queue.push("orders", drafts(10))) for _ in range(50)]
    await asyncio.sleep(0)

    await queue.close()

    receipts = await asyncio.gather(*pushes)
    assert sorted(r.offset for some in receipts for r in some) == list(range(1, 501))


async def test_the_first_push_to_a_queue_under_way_is_finished_or_refused(
    queue: Broker,
) -> None:
    push = asyncio.create_task(queue.push("orders", drafts(1)))
    await asyncio.sleep(0)

    await queue.close()

    await asyncio.wait([push])
    assert isinstance(push.exception(), Closed | None)


async def test_the_first_pop_of_a_group_under_way_is_finished_or_refused(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    first = asyncio.create_task(queue.pop("orders", group="mail"))
    await asyncio.sleep(0)

    await queue.close()

    await asyncio.wait([first])
    assert isinstance(first.exception(), Closed | None)


async def test_an_ack_under_way_is_finished_before_the_broker_is_closed(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    ack = asyncio.create_task(queue.ack(delivery))
    await asyncio.sleep(0)

    await queue.close()

    assert (await ack).completed == 1


async def test_a_pop_under_way_gets_its_messages_before_the_broker_is_closed(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(1))
    assert await queue.pop("orders", partition="bob") is None
    under_way = asyncio.create_task(queue.pop("orders"))
    await asyncio.sleep(0)

    await queue.close()

    assert offsets(await under_way) == [0]


async def test_a_transaction_under_way_is_finished_before_the_broker_is_closed(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(1))
    transaction = asyncio.create_task(queue.transact([Push("orders", drafts(1))]))
    await asyncio.sleep(0)

    await queue.close()

    assert [receipt.offset for receipt in (await transaction).receipts[0]] == [1]


CALLS: dict[str, Call] = {
    "push": lambda queue: queue.push("orders", drafts(1)),
    "pop": lambda queue: queue.pop("orders"),
    "long poll": lambda queue: queue.pop("orders", wait=10),
    "transact": lambda queue: queue.transact([Push("orders", drafts(1))]),
    "sweep": lambda queue: queue.sweep(),
    "stats": lambda queue: queue.stats(),
    "seek": lambda queue: queue.groups.seek("orders", QUEUE_MODE, "end"),
    "delete group": lambda queue: queue.groups.delete("orders", QUEUE_MODE),
    "configure": lambda queue: queue.queues.configure("orders", priority=1),
    "clear": lambda queue: queue.queues.clear("orders"),
    "delete queue": lambda queue: queue.queues.delete("orders"),
    "list messages": lambda queue: queue.messages.list("orders"),
    "list dead letters": lambda queue: queue.dead_letters.list("orders"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_closed_broker_takes_nothing_more(queue: Broker, name: str) -> None:
    await queue.push("orders", drafts(2))
    await queue.ack(await pop(queue))
    await queue.close()

    with pytest.raises(Closed):
        await CALLS[name](queue)


async def test_a_lease_can_be_neither_acked_nor_extended_once_the_broker_is_closed(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    await queue.close()

    with pytest.raises(Closed):
        await queue.ack(delivery)
    with pytest.raises(Closed):
        await queue.fail(delivery)
    with pytest.raises(Closed):
        await queue.extend(lease_of(delivery), 10)


async def test_a_broker_may_be_closed_twice(queue: Broker) -> None:
    await queue.close()

    await queue.close()

    with pytest.raises(Closed):
        await queue.pop("orders")


async def test_a_poll_that_comes_back_from_the_store_when_the_broker_closes_does_not_wait_again(
    held: GatedStore,
) -> None:
    queue = make_broker(held)
    await queue.push("orders", drafts(1))
    await queue.messages.delete((await queue.messages.list("orders")).messages[0].id)
    await queue.pop("orders", partition="bob")
    held.hold()
    poll = await start(queue.pop("orders", wait=30))  # passes over what was deleted

    closing = await start(queue.close())
    held.release()

    assert await finish(poll) is None
    await finish(closing)
