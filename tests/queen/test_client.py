"""What Queen's public client does with queues, checked with the client itself."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from queen import Queen

pytestmark = pytest.mark.xdist_group("queen")

Message = Any


async def pushed(queen: Queen, name: str, count: int, partition: str = "Default") -> None:
    items = [{"data": {"n": n}} for n in range(count)]
    await queen.queue(name).partition(partition).push(items)


def numbers(messages: list[Message]) -> list[int]:
    return [message["data"]["n"] for message in messages]


async def test_a_queue_is_created_with_its_options_and_deleted(queen: Queen, name: str) -> None:
    created = (
        await queen.queue(name)
        .namespace("shop")
        .task("send")
        .config({"lease_time": 7, "retry_limit": 0, "max_size": 50})
        .create()
    )

    assert (created["configured"], created["queue"], created["namespace"]) == (True, name, "shop")
    assert (created["options"]["leaseTime"], created["options"]["retryLimit"]) == (7, 0)
    assert len(created["options"]) == 15
    deleted = await queen.queue(name).delete()
    assert (deleted["deleted"], deleted["existed"]) == (True, True)


async def test_what_is_pushed_is_popped_at_once_and_in_order(queen: Queen, name: str) -> None:
    await pushed(queen, name, 10)

    popped = await queen.queue(name).batch(10).wait(False).pop()

    assert numbers(popped) == list(range(10))


@pytest.mark.parametrize("payload", [None, {}, [], "text", 12345678901234567890, {"a": None}])
async def test_every_payload_comes_back_as_it_was(queen: Queen, name: str, payload: Any) -> None:
    await queen.queue(name).push({"data": payload})

    (message,) = await queen.queue(name).wait(False).pop()

    assert message["data"] == payload


async def test_a_second_push_of_an_id_is_a_duplicate(queen: Queen, name: str) -> None:
    told: list[Any] = []

    async def on_duplicate(items: list[Any], error: Exception) -> None:
        told.extend(items)

    item = {"transactionId": "t", "data": {"n": 1}}
    (first,) = await queen.queue(name).push(item)
    (again,) = await queen.queue(name).push(item).on_duplicate(on_duplicate)

    assert (again["status"], again["message_id"]) == ("duplicate", first["message_id"])
    assert len(told) == 1
    assert len(await queen.queue(name).batch(9).wait(False).pop()) == 1


async def test_success_and_errors_of_a_push_are_called_back(queen: Queen, name: str) -> None:
    good: list[Any] = []
    bad: list[Any] = []

    async def on_success(items: list[Any]) -> None:
        good.extend(items)

    async def on_error(items: list[Any], error: Exception) -> None:
        bad.append(str(error))

    await queen.queue(name).push({"data": 1}).on_success(on_success)
    await queen.queue("q" * 300).push({"data": 1}).on_error(on_error)

    assert len(good) == 1
    assert "at most 255" in bad[0]


async def test_a_push_over_the_maximum_size_is_refused(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"max_size": 2}).create()

    with pytest.raises(Exception, match="is full"):
        await pushed(queen, name, 3)

    assert await queen.queue(name).wait(False).pop() == []


async def test_partitions_are_popped_one_by_one_or_by_name(queen: Queen, name: str) -> None:
    for partition in ("a", "b"):
        await pushed(queen, name, 2, partition)

    by_name = await queen.queue(name).partition("b").batch(10).wait(False).pop()
    the_other = await queen.queue(name).batch(10).wait(False).pop()

    assert [message["partition"] for message in by_name] == ["b", "b"]
    assert [message["partition"] for message in the_other] == ["a", "a"]


async def test_several_partitions_come_with_one_pop(queen: Queen, name: str) -> None:
    for partition in "abcd":
        await pushed(queen, name, 2, partition)

    popped = await queen.queue(name).batch(6).partitions(3).wait(False).pop()

    assert len({message["partition"] for message in popped}) == 3
    assert len({message["leaseId"] for message in popped}) == 1
    answer = await queen.ack(popped)
    assert all(result["success"] for result in answer["results"])


async def test_a_long_poll_gets_what_is_pushed_later(queen: Queen, name: str) -> None:
    waiting = asyncio.ensure_future(queen.queue(name).wait(True).timeout_millis(10_000).pop())
    await asyncio.sleep(0.05)  # so that it does wait; the test holds without it too

    await pushed(queen, name, 1)

    assert numbers(await waiting) == [0]


async def test_groups_each_get_all_and_share_among_themselves(queen: Queen, name: str) -> None:
    await pushed(queen, name, 4)

    billing = await queen.queue(name).group("billing").batch(9).wait(False).pop()
    again = await queen.queue(name).group("billing").batch(9).wait(False).pop()
    shipping = await queen.queue(name).group("shipping").batch(9).wait(False).pop()

    assert (numbers(billing), again, numbers(shipping)) == ([0, 1, 2, 3], [], [0, 1, 2, 3])


async def test_a_group_starts_with_what_is_new_if_it_says_so(queen: Queen, name: str) -> None:
    await pushed(queen, name, 1)
    new = queen.queue(name).group("g").subscription_mode("new").wait(False)
    assert await new.pop() == []

    await queen.queue(name).push({"data": {"n": 7}})

    assert numbers(await queen.queue(name).group("g").batch(9).wait(False).pop()) == [7]


async def test_a_group_starts_at_a_time_if_it_says_so(queen: Queen, name: str) -> None:
    await pushed(queen, name, 1)
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()

    popped = await queen.queue(name).group("g").subscription_from(past).wait(False).pop()

    assert numbers(popped) == [0]


async def test_a_pop_by_namespace_or_task_finds_its_queues(queen: Queen, name: str) -> None:
    space = f"ns-{uuid4().hex}"
    await queen.queue(name).namespace(space).task("t").create()
    await pushed(queen, name, 1)

    assert numbers(await queen.queue().namespace(space).wait(False).pop()) == [0]


async def test_an_ack_ends_a_message_and_a_second_lease_gets_the_next(
    queen: Queen, name: str
) -> None:
    await pushed(queen, name, 2)
    (first,) = await queen.queue(name).wait(False).pop()

    answer = await queen.ack(first)

    assert answer["success"] is True
    assert numbers(await queen.queue(name).wait(False).pop()) == [1]


async def test_an_ack_with_another_lease_is_refused(queen: Queen, name: str) -> None:
    await pushed(queen, name, 1)
    (message,) = await queen.queue(name).wait(False).pop()

    answer = await queen.ack({**message, "leaseId": str(uuid4())})

    assert answer["success"] is False
    assert "lease" in answer["error"]


async def test_what_fails_comes_again_and_ends_with_the_dead_letters(
    queen: Queen, name: str
) -> None:
    await queen.queue(name).config({"retry_limit": 1, "retry_delay": 10}).create()
    await pushed(queen, name, 1)

    attempts = []
    for _ in range(2):
        (message,) = await queen.queue(name).wait(True).timeout_millis(5000).pop()
        attempts.append(message["deliveryAttempt"])
        await queen.ack(message, False, {"error": "no stock"})

    assert attempts == [1, 2]
    dead = await queen.queue(name).dlq().limit(10).get()
    assert dead["total"] == 1
    assert (dead["messages"][0]["data"], dead["messages"][0]["errorMessage"]) == (
        {"n": 0},
        "no stock",
    )


async def test_a_batch_with_a_status_for_each(queen: Queen, name: str) -> None:
    await pushed(queen, name, 3)
    popped = await queen.queue(name).batch(3).wait(False).pop()
    popped[1] |= {"_status": False, "_error": "bad one"}

    answer = await queen.ack(popped)

    assert [result["dlq"] for result in answer["results"]] == [False, True, False]
    dead = await queen.queue(name).dlq("__QUEUE_MODE__").get()
    assert [letter["errorMessage"] for letter in dead["messages"]] == ["bad one"]


async def test_dead_letters_are_found_by_time_and_by_page(queen: Queen, name: str) -> None:
    await pushed(queen, name, 3)
    popped = await queen.queue(name).batch(3).wait(False).pop()
    await queen.ack(popped, "dlq")
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()

    page = await queen.queue(name).dlq().limit(1).offset(1).get()
    later = await queen.queue(name).dlq().from_(soon).get()
    earlier = await queen.queue(name).dlq().to(soon).get()

    assert (len(page["messages"]), page["total"]) == (1, 3)
    assert (later["total"], earlier["total"]) == (0, 3)


async def test_consumers_share_the_work_until_their_limit(queen: Queen, name: str) -> None:
    for partition in "abcd":
        await pushed(queen, name, 5, partition)
    seen: list[Message] = []

    async def handler(message: Message) -> None:
        seen.append(message)

    await (
        queen.queue(name)
        .concurrency(4)
        .batch(5)
        .each()
        .idle_millis(500)
        .timeout_millis(500)
        .consume(handler)
    )

    assert len(seen) == 20
    for partition in "abcd":
        assert numbers([m for m in seen if m["partition"] == partition]) == [0, 1, 2, 3, 4]


async def test_a_consumer_whose_handler_fails_sees_the_message_again(
    queen: Queen, name: str
) -> None:
    await queen.queue(name).config({"retry_limit": 3, "retry_delay": 10}).create()
    await pushed(queen, name, 1)
    calls = 0

    async def handler(message: Message) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("not yet")

    await queen.queue(name).each().limit(2).idle_millis(4000).timeout_millis(1000).consume(handler)

    assert calls == 2
    assert (await queen.queue(name).dlq().get())["total"] == 0


async def test_a_consumer_acks_by_itself_if_it_is_told_to(queen: Queen, name: str) -> None:
    await pushed(queen, name, 3)
    done: list[int] = []

    async def handler(messages: Any) -> None:
        done.extend(numbers(messages))

    async def acked(messages: list[Message], result: Any) -> None:
        await queen.ack(messages, True)

    await queen.queue(name).batch(3).auto_ack(False).limit(1).consume(handler).on_success(acked)

    assert done == [0, 1, 2]
    assert await queen.queue(name).wait(False).pop() == []


async def test_a_lease_is_renewed_while_a_handler_works(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"lease_time": 1}).create()
    await pushed(queen, name, 1)
    others: list[Any] = []

    async def handler(message: Message) -> None:
        for _ in range(5):
            await asyncio.sleep(0.4)  # twice as long as the lease lives
            others.extend(await queen.queue(name).wait(False).pop())

    await queen.queue(name).each().renew_lease(True, 300).limit(1).consume(handler)

    assert others == []


async def test_a_renewal_says_how_long_and_that_a_lost_lease_is_lost(
    queen: Queen, name: str
) -> None:
    await pushed(queen, name, 1)
    (message,) = await queen.queue(name).wait(False).pop()

    kept: Any = await queen.renew(message)
    many: Any = await queen.renew([message, message])
    lost: Any = await queen.renew(str(uuid4()))

    assert (kept["success"], bool(kept["newExpiresAt"])) == (True, True)
    assert [each["success"] for each in many] == [True]
    assert lost["success"] is False


async def test_a_transaction_moves_messages_whole(queen: Queen, name: str) -> None:
    out = f"{name}-out"
    await pushed(queen, name, 2)
    popped = await queen.queue(name).batch(2).wait(False).pop()

    done = await (
        queen.transaction()
        .ack(popped)
        .queue(out)
        .partition("p")
        .push([{"data": {"n": 5}}])
        .commit()
    )

    assert done["success"] is True
    assert numbers(await queen.queue(out).partition("p").wait(False).pop()) == [5]
    assert await queen.queue(name).wait(False).pop() == []


async def test_a_transaction_with_a_wrong_message_does_nothing(queen: Queen, name: str) -> None:
    out = f"{name}-out"
    await queen.queue(name).config({"lease_time": 1}).create()
    await pushed(queen, name, 1)
    (message,) = await queen.queue(name).wait(False).pop()
    wrong = {**message, "transactionId": "nobody"}

    with pytest.raises(Exception, match="nobody"):
        await queen.transaction().queue(out).push({"data": 1}).ack(message).ack(wrong).commit()

    assert await queen.queue(out).wait(False).pop() == []
    assert numbers(await queen.queue(name).wait(True).timeout_millis(5000).pop()) == [0]


async def test_a_delayed_message_comes_late(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"delayed_processing": 1}).create()
    await pushed(queen, name, 1)

    at_once = await queen.queue(name).wait(False).pop()
    later = await queen.queue(name).wait(True).timeout_millis(5000).pop()

    assert (at_once, numbers(later)) == ([], [0])


async def test_a_window_gathers_what_comes_close_together(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"window_buffer": 1}).create()
    await pushed(queen, name, 1)
    await pushed(queen, name, 1)

    at_once = await queen.queue(name).batch(9).wait(False).pop()
    later = await queen.queue(name).batch(9).wait(True).timeout_millis(5000).pop()

    assert (at_once, len(later)) == ([], 2)


async def test_buffered_pushes_arrive_with_the_flush(queen: Queen, name: str) -> None:
    for n in range(5):
        await (
            queen.queue(name)
            .buffer({"message_count": 100, "time_millis": 60_000})
            .push({"data": {"n": n}})
        )
    assert queen.get_buffer_stats()["totalBufferedMessages"] == 5

    await queen.queue(name).flush_buffer()
    await queen.flush_all_buffers()

    assert numbers(await queen.queue(name).batch(9).wait(False).pop()) == [0, 1, 2, 3, 4]


async def test_what_a_handler_traces_is_found_by_name(queen: Queen, name: str) -> None:
    await pushed(queen, name, 1)
    told: list[Message] = []

    async def handler(message: Message) -> None:
        told.append(message)
        traced = await message["trace"](
            {"traceName": [f"{name}-trace"], "data": {"step": 1}, "eventType": "step"}
        )
        assert traced["success"] is True

    await queen.queue(name).each().limit(1).consume(handler)

    found = await queen.admin.get_traces_by_name(f"{name}-trace")
    assert [trace["data"] for trace in found["traces"]] == [{"step": 1}]
    of_message = await queen.admin.get_traces_for_message(
        told[0]["partitionId"], told[0]["transactionId"]
    )
    assert [trace["event_type"] for trace in of_message["traces"]] == ["step"]


async def test_a_group_can_be_forgotten_and_begins_anew(queen: Queen, name: str) -> None:
    await pushed(queen, name, 1)
    group = f"{name}-g"
    await queen.queue(name).group(group).wait(False).pop()

    answer = await queen.delete_consumer_group(group)

    assert answer["success"] is True
    assert numbers(await queen.queue(name).group(group).wait(False).pop()) == [0]


async def test_a_groups_subscription_can_be_moved(queen: Queen, name: str) -> None:
    await pushed(queen, name, 1)
    group = f"{name}-g"
    popped = await queen.queue(name).group(group).wait(False).pop()
    await queen.ack(popped, True, {"group": group})
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()

    answer = await queen.update_consumer_group_timestamp(group, past)

    assert answer["success"] is True


async def test_a_push_to_an_encrypted_queue_without_a_key_fails_at_once(
    queen: Queen, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queen.queue(name).config({"encryption_enabled": True}).create()
    answers: list[int] = []
    send = httpx.AsyncClient.send

    async def note(client: httpx.AsyncClient, request: httpx.Request, **options: Any) -> Any:
        answer = await send(client, request, **options)
        answers.append(answer.status_code)
        return answer

    monkeypatch.setattr(httpx.AsyncClient, "send", note)

    with pytest.raises(httpx.HTTPStatusError, match="no key is configured"):
        await queen.queue(name).push({"data": 1})

    assert answers == [409]
