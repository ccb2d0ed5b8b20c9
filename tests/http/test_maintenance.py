"""Maintenance: nothing is lost, doubled or reordered by it."""

import asyncio
from pathlib import Path

import pytest

import skep
from skep import Draft
from skep.core.admin.push_buffer import BUFFER
from tests.support.http.memory_app import HttpCaller

TURNS = 2000


async def until_delivered(hand: HttpCaller) -> None:
    for _ in range(TURNS):
        if not hand.broker.maintenance.buffers:
            return
        await asyncio.sleep(0)
    pytest.fail("buffered messages are never delivered")


async def switch(hand: HttpCaller, on: bool, path: str = "maintenance") -> dict[str, object]:
    answer: dict[str, object] = await hand.post(f"/api/v1/system/{path}", {"enabled": on})
    return answer


async def test_a_push_in_maintenance_is_buffered(hand: HttpCaller) -> None:
    await switch(hand, True)

    (pushed,) = await hand.push("orders", 1, transactionId="t")

    assert (pushed["status"], pushed["transactionId"]) == ("buffered", "t")
    assert await hand.pop("orders") is None
    shown = await hand.get("/api/v1/system/maintenance")
    assert (shown["maintenanceMode"], shown["bufferedMessages"]) == (True, 1)


async def test_what_was_buffered_is_delivered_in_order_before_what_comes_later(
    hand: HttpCaller,
) -> None:
    await hand.push("orders", 0)
    await switch(hand, True)
    for n in range(1, 8):
        await hand.push("orders", n)

    await switch(hand, False)
    await hand.push("orders", 8)
    await until_delivered(hand)
    await hand.push("orders", 9)

    popped = await hand.pop("orders", batch=100)
    assert popped is not None
    assert [m["data"] for m in popped["messages"]] == list(range(10))
    assert hand.broker.maintenance.buffered == 0


async def test_an_id_that_was_pushed_before_is_not_doubled(hand: HttpCaller) -> None:
    await hand.push("orders", 1, transactionId="t")
    await switch(hand, True)
    await hand.push("orders", 1, transactionId="t")

    await switch(hand, False)
    await until_delivered(hand)

    popped = await hand.pop("orders", batch=100)
    assert popped is not None
    assert len(popped["messages"]) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"queue": "q" * 300},
        {"queue": "orders", "partition": ""},
        {"queue": "o", "transactionId": ""},
    ],
)
async def test_a_push_that_could_never_be_delivered_is_refused_whole(
    hand: HttpCaller, bad: dict[str, str]
) -> None:
    await switch(hand, True)
    items = [{"queue": "orders", "payload": 1}, {"payload": 2, **bad}]

    await hand.post("/api/v1/push", {"items": items}, expect=400)

    assert hand.broker.maintenance.buffered == 0


async def test_a_transaction_that_pushes_is_refused_meanwhile(hand: HttpCaller) -> None:
    await switch(hand, True)
    body = {"operations": [{"type": "push", "queue": "q", "payload": 1}]}

    await hand.post("/api/v1/transaction", body, expect=503)

    assert await hand.broker.queues.list() == []


async def test_pops_in_maintenance_find_nothing(hand: HttpCaller) -> None:
    await hand.push("orders", 1)
    await switch(hand, True, "maintenance/pop")

    paused = await hand.pop("orders")

    assert paused == {"messages": [], "paused": True}
    await switch(hand, False, "maintenance/pop")
    assert await hand.pop("orders") is not None


async def test_our_own_queue_is_not_shown(hand: HttpCaller) -> None:
    await switch(hand, True)
    await hand.push("orders", 1)

    assert [queue.name for queue in await hand.broker.queues.list()] == []


async def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    async with skep.open(tmp_path / "data") as queue:
        await queue.maintenance.set_pushing(True)
        await queue.maintenance.buffer({"orders": [Draft(b"1"), Draft(b"2")]}, "alice")

    async with skep.open(tmp_path / "data") as queue:
        assert queue.maintenance.pushing
        assert queue.maintenance.buffered == 2
        await queue.maintenance.set_pushing(False)
        delivery = await queue.pop("orders", batch=9, wait=5)

    assert delivery is not None
    assert [(m.payload, m.producer) for m in delivery.messages] == [
        (b"1", "alice"),
        (b"2", "alice"),
    ]


async def test_the_switch_must_be_a_boolean(hand: HttpCaller) -> None:
    refused = await hand.post("/api/v1/system/maintenance", {"enabled": "yes"}, expect=400)

    assert refused["field"] == "enabled"
    assert BUFFER not in {queue.name for queue in await hand.broker.queues.list()}
