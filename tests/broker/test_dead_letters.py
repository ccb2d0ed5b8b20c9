"""Dead letters: looking at them, sending them back, throwing them away."""

import asyncio
from uuid import UUID

import pytest

from skep import Broker, Draft, Limits
from skep.errors import (
    DeadLetterNotFound,
    Invalid,
    OutcomeUnknown,
    Overloaded,
    PartitionNotFound,
    QueueNotFound,
)
from skep.model.dead_letter import FailedMessage
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    dead,
    drafts,
    finish,
    letters,
    make_broker,
    moment,
    payloads,
    pop,
    pop_all,
    start,
)
from tests.support.gated_store import GatedStore

TRACE = UUID("0198c3f0-0000-7000-8000-000000000001")
EVERY_BYTE = bytes(range(256))
NOBODY = 999_999


async def reject(queue: Broker, *, group: str = "billing", error: str = "no") -> None:
    """Let a group give up everything that waits for it."""
    await queue.queues.configure("orders", retry_limit=0)
    while delivery := await queue.pop("orders", group=group, batch=100):
        await queue.fail(delivery, error=error)


async def give_up(
    queue: Broker, *what: Draft, group: str = "billing", error: str = "no"
) -> list[FailedMessage]:
    """Push messages and let a group give each of them up; return them as dead letters."""
    receipts = await queue.push("orders", what)
    await reject(queue, group=group, error=error)
    letters = await queue.dead_letters.list("orders", group=group, limit=1000)
    found = {letter.message_id: letter for letter in letters}
    return [found[receipt.id] for receipt in receipts]


def numbers(found: list[FailedMessage]) -> list[int]:
    return [letter.number for letter in found]


# Looking.


async def test_a_dead_letter_holds_the_message_and_why_it_was_given_up(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_limit=1, retry_delay=0)
    pushed_at = moment(clock)
    draft = Draft(EVERY_BYTE, "alice", "t-1", TRACE)
    (receipt,) = await queue.push("orders", [draft], producer="service-a")
    await queue.fail(await pop(queue, group="billing"), error="first")
    clock.advance(60)
    await queue.fail(await pop(queue, group="billing"), error="second")

    (letter,) = await queue.dead_letters.list("orders")

    assert letter == FailedMessage(
        number=letter.number,
        queue="orders",
        partition="alice",
        offset=0,
        message_id=receipt.id,
        transaction_id="t-1",
        trace_id=TRACE,
        group="billing",
        error="second",
        attempts=2,
        payload=EVERY_BYTE,
        producer="service-a",
        created_at=pushed_at,
        failed_at=moment(clock),
    )


async def test_a_dead_letter_is_found_by_its_number(queue: Broker) -> None:
    first, second = await give_up(queue, *drafts(2))

    assert await queue.dead_letters.get("orders", first.number) == first
    assert await queue.dead_letters.get("orders", second.number) == second


async def test_a_number_that_is_no_dead_letter_is_not_found(queue: Broker) -> None:
    await give_up(queue, *drafts(1))

    with pytest.raises(DeadLetterNotFound, match=f"dead letter {NOBODY} does not exist"):
        await queue.dead_letters.get("orders", NOBODY)


async def test_a_dead_letter_is_found_in_its_own_queue_only(queue: Broker) -> None:
    (letter,) = await give_up(queue, *drafts(1))
    await queue.push("invoices", drafts(1))

    assert await queue.dead_letters.list("invoices") == []
    with pytest.raises(DeadLetterNotFound):
        await queue.dead_letters.get("invoices", letter.number)
    with pytest.raises(DeadLetterNotFound):
        await queue.dead_letters.replay("invoices", [letter.number])
    with pytest.raises(DeadLetterNotFound):
        await queue.dead_letters.delete("invoices", [letter.number])


async def test_dead_letters_of_a_queue_that_does_not_exist_are_not_found(queue: Broker) -> None:
    for ask in (
        queue.dead_letters.list,
        queue.dead_letters.count,
        queue.dead_letters.replay_all,
        queue.dead_letters.delete_all,
    ):
        with pytest.raises(QueueNotFound):
            await ask("orders")


async def test_dead_letters_come_newest_first(queue: Broker) -> None:
    for n in range(3):
        await give_up(queue, *drafts(1, first=n))

    found = await queue.dead_letters.list("orders")

    assert [letter.payload for letter in found] == [b"2", b"1", b"0"]


async def test_dead_letters_come_page_by_page(queue: Broker) -> None:
    await give_up(queue, *drafts(5))

    pages: list[list[FailedMessage]] = []
    before: int | None = None
    while page := await queue.dead_letters.list("orders", before=before, limit=2):
        pages.append(page)
        before = page[-1].number

    assert list(map(len, pages)) == [2, 2, 1]
    assert [letter for page in pages for letter in page] == await queue.dead_letters.list("orders")


async def test_a_page_does_not_move_when_new_dead_letters_come(queue: Broker) -> None:
    await give_up(queue, *drafts(4))
    first = await queue.dead_letters.list("orders", limit=2)
    expected = (await queue.dead_letters.list("orders"))[2:]

    await give_up(queue, *drafts(3, first=4))

    second = await queue.dead_letters.list("orders", before=first[-1].number, limit=10)
    assert second == expected


async def test_dead_letters_are_filtered_by_group(queue: Broker) -> None:
    await queue.pop("orders", group="audit")
    await give_up(queue, *drafts(2), group="billing")
    await reject(queue, group="audit")

    found = await queue.dead_letters.list("orders", group="audit")

    assert {letter.group for letter in found} == {"audit"}
    assert await queue.dead_letters.count("orders", group="audit") == 2
    assert await queue.dead_letters.count("orders") == 4
    assert await queue.dead_letters.list("orders", group="nobody") == []


async def test_dead_letters_are_filtered_by_partition(queue: Broker) -> None:
    await give_up(queue, *drafts(2, "alice"), *drafts(1, "bob", first=2))

    found = await queue.dead_letters.list("orders", partition="bob")

    assert [letter.payload for letter in found] == [b"2"]
    assert await queue.dead_letters.count("orders", partition="alice") == 2
    with pytest.raises(PartitionNotFound):
        await queue.dead_letters.list("orders", partition="carol")


async def test_dead_letters_are_filtered_by_when_they_failed(
    queue: Broker, clock: ManualClock
) -> None:
    for n in range(4):
        await give_up(queue, *drafts(1, first=n))
        clock.advance(60)

    from_, to = moment(clock, -180), moment(clock, -60)
    found = await queue.dead_letters.list("orders", from_=from_, to=to)

    assert [letter.payload for letter in found] == [b"2", b"1"]
    assert await queue.dead_letters.count("orders", from_=from_) == 3
    assert await queue.dead_letters.count("orders", to=to) == 3


async def test_filters_add_up_and_go_with_pages(queue: Broker) -> None:
    await queue.pop("orders", group="audit")
    mixed = [*drafts(3, "alice"), *drafts(3, "bob", first=3)]
    await give_up(queue, *mixed, group="billing")
    await reject(queue, group="audit")

    first = await queue.dead_letters.list("orders", group="audit", partition="bob", limit=2)
    second = await queue.dead_letters.list(
        "orders", group="audit", partition="bob", limit=2, before=first[-1].number
    )

    found = [*first, *second]
    assert sorted(letter.payload for letter in found) == [b"3", b"4", b"5"]
    assert {(letter.group, letter.partition) for letter in found} == {("audit", "bob")}


async def test_a_message_is_one_dead_letter_per_group(queue: Broker) -> None:
    await queue.pop("orders", group="audit")
    await give_up(queue, *drafts(1), group="billing", error="once")
    await reject(queue, group="audit", error="other")
    await queue.groups.seek("orders", "billing", "beginning")

    await reject(queue, group="billing", error="again")

    found = [(letter.group, letter.error) for letter in await letters(queue)]
    assert found == [("audit", "other"), ("billing", "again")]


async def test_dead_letters_survive_retention(queue: Broker, clock: ManualClock) -> None:
    (letter,) = await give_up(queue, Draft(EVERY_BYTE, "alice", "t-1"))
    await queue.queues.configure("orders", retention_enabled=True, retention_seconds=60)
    clock.advance(61)

    assert await queue.sweep() == 1

    assert await queue.dead_letters.get("orders", letter.number) == letter


async def test_dead_letters_are_known_to_the_next_process(store: Store) -> None:
    before = await make_broker(store).__aenter__()
    expected = await give_up(before, *drafts(2))

    async with make_broker(store) as after:
        found = await letters(after)
        await after.dead_letters.replay("orders", numbers(found))
        again = await pop_all(after, group="billing", batch=10)

    assert found == expected
    assert again == [b"0", b"1"]


# Sending back.


async def test_a_replayed_message_comes_back_at_the_end_of_its_partition(queue: Broker) -> None:
    (letter, *_) = await give_up(queue, *drafts(2, "alice"))
    await queue.push("orders", drafts(1, "alice", first=2))

    (receipt,) = await queue.dead_letters.replay("orders", [letter.number])

    assert (receipt.partition, receipt.offset, receipt.duplicate) == ("alice", 3, False)
    assert await pop_all(queue, group="billing", batch=10) == [b"2", b"0"]


async def test_a_replayed_message_keeps_what_it_was_pushed_with(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", [Draft(EVERY_BYTE, "alice", "t-1", TRACE)], producer="service-a")
    await queue.fail(await pop(queue))
    (letter,) = await letters(queue)

    (receipt,) = await queue.dead_letters.replay("orders", [letter.number])

    (message,) = (await pop(queue)).messages
    assert (message.payload, message.transaction_id) == (EVERY_BYTE, "t-1")
    assert (message.trace_id, message.producer) == (TRACE, "service-a")
    assert (message.id, message.attempt) == (receipt.id, 1)
    assert receipt.transaction_id == "t-1"


async def test_a_replayed_message_keeps_the_transaction_id_that_was_derived(
    queue: Broker,
) -> None:
    (letter,) = await give_up(queue, Draft(b"a"))

    (receipt,) = await queue.dead_letters.replay("orders", [letter.number])

    (message,) = (await pop(queue, group="billing")).messages
    assert message.transaction_id == letter.transaction_id
    assert receipt.transaction_id == letter.transaction_id


async def test_a_replayed_message_leaves_the_dead_letters(queue: Broker) -> None:
    first, second = await give_up(queue, *drafts(2))

    await queue.dead_letters.replay("orders", [first.number])

    assert await letters(queue) == [second]
    assert (await queue.queues.stats("orders")).dead_letters == 1


async def test_a_dead_letter_comes_back_once(queue: Broker) -> None:
    (letter,) = await give_up(queue, *drafts(1))
    await queue.dead_letters.replay("orders", [letter.number])

    with pytest.raises(DeadLetterNotFound):
        await queue.dead_letters.replay("orders", [letter.number])

    assert await pop_all(queue, group="billing", batch=10) == [b"0"]


async def test_of_replays_at_the_same_time_one_succeeds(queue: Broker) -> None:
    (letter,) = await give_up(queue, *drafts(1))

    found = await asyncio.gather(
        *(queue.dead_letters.replay("orders", [letter.number]) for _ in range(5)),
        return_exceptions=True,
    )

    assert [isinstance(result, DeadLetterNotFound) for result in found].count(False) == 1
    assert await pop_all(queue, group="billing", batch=10) == [b"0"]


async def test_several_are_replayed_in_the_order_given(queue: Broker) -> None:
    first, second, third = await give_up(queue, *drafts(3))

    receipts = await queue.dead_letters.replay(
        "orders", [third.number, first.number, second.number]
    )

    assert [receipt.offset for receipt in receipts] == [3, 4, 5]
    assert await pop_all(queue, group="billing", batch=10) == [b"2", b"0", b"1"]


async def test_if_one_of_several_does_not_exist_none_is_replayed(queue: Broker) -> None:
    (letter,) = await give_up(queue, *drafts(1))

    with pytest.raises(DeadLetterNotFound):
        await queue.dead_letters.replay("orders", [letter.number, NOBODY])

    assert await letters(queue) == [letter]
    assert await queue.pop("orders", group="billing") is None


async def test_a_dead_letter_that_is_named_twice_is_refused_and_none_is_replayed(
    queue: Broker,
) -> None:
    found = numbers(await give_up(queue, *drafts(2)))

    with pytest.raises(Invalid) as refused:
        await queue.dead_letters.replay("orders", [*found, found[0]])

    assert refused.value.field == "numbers"
    assert await dead(queue) == [b"0", b"1"]
    assert (await queue.queues.stats("orders")).messages == 2


async def test_more_dead_letters_than_may_wait_for_the_store_are_replayed_in_steps(
    store: Store,
) -> None:
    async with make_broker(store, limits=Limits(pending_bytes=2_000_000)) as queue:
        large = [Draft(b"x" * 900_000, f"p{n}") for n in range(3)]
        found = [letter for draft in large for letter in await give_up(queue, draft)]

        receipts = await queue.dead_letters.replay("orders", numbers(found))

        assert [receipt.partition for receipt in receipts] == ["p0", "p1", "p2"]
        assert await dead(queue) == []


async def test_a_replay_that_is_refused_in_the_middle_says_that_something_was_done(
    held: GatedStore,
) -> None:
    async with make_broker(held, limits=Limits(pending_bytes=100_000)) as queue:
        found = await give_up(queue, *drafts(200), Draft(b"x" * 50_000))
        held.hold()
        replay = await start(queue.dead_letters.replay("orders", numbers(found)))
        push = await start(queue.push("orders", [Draft(b"x" * 60_000)]))

        held.release()
        held.hold()  # the first step has gone through; the push waits

        with pytest.raises(OutcomeUnknown, match="after 200 of 201") as stopped:
            await finish(replay)
        held.release()
        assert isinstance(stopped.value.__cause__, Overloaded)
        assert await queue.dead_letters.count("orders") == 1
        await push


@pytest.mark.parametrize("what", ["replay_all", "delete_all"])
async def test_of_all_dead_letters_those_that_vanish_meanwhile_are_left_out(
    held: GatedStore, what: str
) -> None:
    async with make_broker(held) as queue:
        found = await give_up(queue, *drafts(300))
        held.hold()
        under_way = await start(getattr(queue.dead_letters, what)("orders"))
        other = await start(queue.dead_letters.delete("orders", [max(numbers(found))]))

        held.release()

        assert await finish(under_way) == 299
        assert await queue.dead_letters.count("orders") == 0
        await other


async def test_every_group_sees_a_replayed_message(queue: Broker) -> None:
    await queue.pop("orders", group="audit")
    (letter,) = await give_up(queue, *drafts(1), group="billing")
    assert await pop_all(queue, group="audit") == [b"0"]

    await queue.dead_letters.replay("orders", [letter.number])

    assert await pop_all(queue, group="billing") == [b"0"]
    assert await pop_all(queue, group="audit") == [b"0"]


async def test_a_replayed_message_may_fail_and_come_back_again(queue: Broker) -> None:
    (letter,) = await give_up(queue, Draft(b"a", "alice", "t-1"), error="first")
    await queue.dead_letters.replay("orders", [letter.number])

    await reject(queue, error="second")

    (again,) = await letters(queue)
    assert (again.offset, again.transaction_id, again.error) == (1, "t-1", "second")
    await queue.dead_letters.replay("orders", [again.number])
    assert await pop_all(queue, group="billing") == [b"a"]


async def test_the_id_of_a_replayed_message_names_the_new_one(queue: Broker) -> None:
    (letter,) = await give_up(queue, Draft(b"a", "alice", "t-1"))
    (receipt,) = await queue.dead_letters.replay("orders", [letter.number])

    (again,) = await queue.push("orders", [Draft(b"other", "alice", "t-1")])

    assert (again.duplicate, again.id) == (True, receipt.id)
    found = await queue.messages.find("orders", "alice", "t-1")
    assert found is not None
    assert found.offset == 1


async def test_a_dead_letter_comes_back_after_retention_removed_its_message(
    queue: Broker, clock: ManualClock
) -> None:
    (letter,) = await give_up(queue, Draft(EVERY_BYTE, "alice", "t-1"))
    await queue.queues.configure("orders", retention_enabled=True, retention_seconds=60)
    clock.advance(61)
    await queue.sweep()

    await queue.dead_letters.replay("orders", [letter.number])

    delivery = await pop(queue, group="billing")
    assert payloads(delivery) == [EVERY_BYTE]
    assert delivery.messages[0].created_at == moment(clock)


async def test_all_are_replayed_oldest_first(queue: Broker) -> None:
    await give_up(queue, *drafts(450))

    assert await queue.dead_letters.replay_all("orders") == 450

    assert await letters(queue) == []
    assert await pop_all(queue, group="billing", batch=1000) == [b"%d" % n for n in range(450)]


async def test_all_of_a_group_or_of_a_partition_are_replayed(queue: Broker) -> None:
    await queue.pop("orders", group="audit")
    await give_up(queue, *drafts(2, "alice"), *drafts(1, "bob", first=2), group="billing")
    await reject(queue, group="audit")

    assert await queue.dead_letters.replay_all("orders", group="audit", partition="alice") == 2
    assert await queue.dead_letters.replay_all("orders", partition="bob") == 2

    left = [(letter.group, letter.partition) for letter in await letters(queue)]
    assert left == [("billing", "alice"), ("billing", "alice")]


async def test_replaying_all_of_nothing_does_nothing(queue: Broker) -> None:
    await queue.push("orders", drafts(1))

    assert await queue.dead_letters.replay_all("orders") == 0


async def test_a_replay_wakes_who_waits(queue: Broker) -> None:
    (letter,) = await give_up(queue, *drafts(1))
    waiting = asyncio.create_task(queue.pop("orders", group="billing", wait=60))

    await queue.dead_letters.replay("orders", [letter.number])

    assert payloads(await waiting) == [b"0"]


# Throwing away.


async def test_a_dead_letter_is_thrown_away(queue: Broker) -> None:
    first, second = await give_up(queue, *drafts(2))

    await queue.dead_letters.delete("orders", [first.number])

    assert await letters(queue) == [second]
    assert await queue.pop("orders", group="billing") is None
    with pytest.raises(DeadLetterNotFound):
        await queue.dead_letters.get("orders", first.number)


async def test_the_message_of_a_deleted_dead_letter_stays_in_the_queue(queue: Broker) -> None:
    (letter,) = await give_up(queue, *drafts(1))

    await queue.dead_letters.delete("orders", [letter.number])

    assert (await queue.messages.get(letter.message_id)).payload == b"0"


async def test_if_one_of_several_does_not_exist_none_is_thrown_away(queue: Broker) -> None:
    found = await give_up(queue, *drafts(2))

    with pytest.raises(DeadLetterNotFound, match=str(NOBODY)):
        await queue.dead_letters.delete("orders", [*numbers(found), NOBODY])

    assert await letters(queue) == found


async def test_a_dead_letter_is_thrown_away_once(queue: Broker) -> None:
    (letter,) = await give_up(queue, *drafts(1))
    await queue.dead_letters.delete("orders", [letter.number])

    with pytest.raises(DeadLetterNotFound):
        await queue.dead_letters.delete("orders", [letter.number])


async def test_all_of_a_group_or_of_a_partition_are_thrown_away(queue: Broker) -> None:
    await queue.pop("orders", group="audit")
    await give_up(queue, *drafts(2, "alice"), *drafts(1, "bob", first=2), group="billing")
    await reject(queue, group="audit")

    assert await queue.dead_letters.delete_all("orders", group="audit") == 3
    assert await queue.dead_letters.delete_all("orders", partition="bob") == 1

    assert await dead(queue) == [b"0", b"1"]
    assert await queue.dead_letters.delete_all("orders") == 2
    assert await dead(queue) == []


async def test_many_are_thrown_away(queue: Broker) -> None:
    await give_up(queue, *drafts(450))

    assert await queue.dead_letters.delete_all("orders") == 450

    assert await queue.dead_letters.count("orders") == 0
