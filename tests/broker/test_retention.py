"""How old messages leave a queue."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from skep import Broker, Draft
from skep.core.journal.journal import Selection
from skep.core.journal.reader_group import Start
from skep.errors import MessageNotFound
from skep.model.name import SECOND
from skep.model.queue import Removal
from skep.store.open import open_store
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    backlogs,
    cursors,
    drafts,
    finish,
    make_broker,
    offsets,
    payloads,
    pop,
    pop_all,
    start,
)
from tests.support.gated_store import GatedStore
from tests.support.postgres_databases import databases

MINUTE = 60
HOUR = 3600
DAY = 24 * HOUR
ORDERS = Selection(queues=("orders",))


async def keep(queue: Broker, **options: Any) -> None:
    await queue.queues.configure("orders", retention_enabled=True, **options)


async def kept(queue: Broker) -> list[bytes]:
    """The payloads that the queue still holds, oldest first."""
    page = await queue.messages.list("orders", limit=1000)
    return [message.payload for message in reversed(page.messages)]


async def bounds(queue: Broker) -> dict[str, tuple[int, int]]:
    return {p.name: (p.start, p.end) for p in await queue.queues.partitions("orders")}


def lines(history: Sequence[Removal]) -> list[tuple[str, int]]:
    return [(removal.kind, removal.messages) for removal in history]


# By age.


@pytest.mark.parametrize(("age", "removed"), [(MINUTE - 1, 0), (MINUTE, 0), (MINUTE + 0.000001, 2)])
async def test_a_message_goes_when_it_is_older_than_the_retention(
    queue: Broker, clock: ManualClock, age: float, removed: int
) -> None:
    await keep(queue, retention_seconds=MINUTE)
    await queue.push("orders", drafts(2))
    clock.advance(age)

    assert await queue.sweep() == removed

    assert len(await kept(queue)) == 2 - removed


async def test_a_message_that_nobody_has_read_goes_too(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, retention_seconds=MINUTE)
    await queue.pop("orders", group="slow")
    await queue.push("orders", drafts(2))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 2

    assert await queue.pop("orders", group="slow") is None
    assert await backlogs(queue, group="slow") == {"Default": 0}


async def test_younger_messages_stay_and_are_delivered(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, retention_seconds=MINUTE)
    await queue.push("orders", drafts(2))
    clock.advance(MINUTE)
    await queue.push("orders", drafts(2, first=2))
    clock.advance(1)

    await queue.sweep()

    assert await bounds(queue) == {"Default": (2, 4)}
    delivery = await pop(queue, batch=10)
    assert (payloads(delivery), offsets(delivery)) == ([b"2", b"3"], [2, 3])


async def test_a_message_that_is_just_as_old_as_the_retention_stays_behind_older_ones(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE)
    await queue.push("orders", drafts(1))
    clock.advance(0.000001)
    await queue.push("orders", drafts(1, first=1))
    clock.advance(MINUTE)

    assert await queue.sweep() == 1

    assert await kept(queue) == [b"1"]


async def test_each_partition_is_judged_by_its_own_messages(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE)
    await queue.push("orders", drafts(1, "alice"))
    clock.advance(MINUTE)
    await queue.push("orders", drafts(1, "bob"))
    clock.advance(1)

    assert await queue.sweep() == 1

    assert await bounds(queue) == {"alice": (1, 1), "bob": (0, 1)}


async def test_messages_that_went_in_together_go_together(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE)
    pushes = [queue.push("orders", drafts(2, first=2 * n)) for n in range(3)]
    await asyncio.gather(*pushes)
    clock.advance(MINUTE + 1)

    removed = await queue.sweep()

    assert removed == 6
    assert await bounds(queue) == {"Default": (6, 6)}


async def test_what_was_removed_is_not_found_any_more(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, retention_seconds=MINUTE)
    (receipt,) = await queue.push("orders", [Draft(b"a", transaction_id="t-1")])
    clock.advance(MINUTE + 1)
    await queue.sweep()

    with pytest.raises(MessageNotFound):
        await queue.messages.get(receipt.id)

    assert await queue.messages.find("orders", "Default", "t-1") is None
    assert await queue.messages.find("orders", "Default", str(receipt.id)) is None


async def test_offsets_go_on_after_everything_was_removed(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE)
    await queue.push("orders", drafts(3))
    clock.advance(MINUTE + 1)
    await queue.sweep()

    (receipt,) = await queue.push("orders", drafts(1, first=3))

    assert receipt.offset == 3
    assert await pop_all(queue) == [b"3"]


async def test_many_small_pushes_all_go_in_one_sweep(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, retention_seconds=MINUTE)
    for n in range(250):
        await queue.push("orders", drafts(1, first=n))
    clock.advance(MINUTE + 1)
    await queue.push("orders", drafts(1, first=250))

    assert await queue.sweep() == 250

    assert await kept(queue) == [b"250"]


async def test_every_queue_is_swept_by_its_own_rule(queue: Broker, clock: ManualClock) -> None:
    for name, seconds in (("short", MINUTE), ("long", HOUR)):
        await queue.queues.configure(name, retention_enabled=True, retention_seconds=seconds)
        await queue.push(name, drafts(1))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 1

    assert (await queue.queues.stats("short")).messages == 0
    assert (await queue.queues.stats("long")).messages == 1


# Only what is done.


@pytest.mark.one_server("commits of two servers in one instant have no order")
async def test_completed_messages_go_when_every_group_has_done_them(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, completed_retention_seconds=MINUTE)
    for n in range(4):
        await queue.push("orders", drafts(1, first=n))
    await queue.ack(await pop(queue, group="fast", batch=4))
    await queue.ack(await pop(queue, group="slow", batch=2))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 2

    assert await kept(queue) == [b"2", b"3"]
    assert await pop_all(queue, group="slow", batch=10) == [b"2", b"3"]


async def test_completed_messages_stay_until_they_are_old_enough(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, completed_retention_seconds=MINUTE)
    await queue.push("orders", drafts(1))
    await queue.ack(await pop(queue))
    clock.advance(MINUTE)

    assert await queue.sweep() == 0

    clock.advance(0.000001)
    assert await queue.sweep() == 1


async def test_what_is_leased_is_not_done(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, completed_retention_seconds=MINUTE, lease_time=HOUR)
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 0

    await queue.ack(delivery)
    assert await queue.sweep() == 2


async def test_what_is_acknowledged_behind_a_gap_is_not_removed(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, completed_retention_seconds=MINUTE, lease_time=HOUR)
    for n in range(3):
        await queue.push("orders", drafts(1, first=n))
    delivery = await pop(queue, batch=3)
    await queue.ack(delivery, delivery.messages[1:])
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 0

    await queue.ack(delivery)
    assert await queue.sweep() == 3


async def test_a_group_that_has_read_nothing_holds_everything(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, completed_retention_seconds=MINUTE)
    await queue.pop("orders", group="slow")
    await queue.push("orders", drafts(1))
    await queue.ack(await pop(queue, group="fast"))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 0

    await queue.groups.delete("orders", "slow")
    assert await queue.sweep() == 1


async def test_without_a_group_nothing_is_done(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, completed_retention_seconds=MINUTE)
    await queue.push("orders", drafts(2))
    clock.advance(HOUR)

    assert await queue.sweep() == 0


async def test_a_dead_letter_is_done(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, completed_retention_seconds=MINUTE, retry_limit=0)
    await queue.push("orders", drafts(1))
    await queue.fail(await pop(queue))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 1


async def test_never_a_part_of_what_was_pushed_together_is_removed(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, completed_retention_seconds=MINUTE)
    await queue.push("orders", drafts(2))
    await queue.push("orders", drafts(3, first=2))
    await queue.ack(await pop(queue, batch=4))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 2

    assert await kept(queue) == [b"2", b"3", b"4"]
    assert await pop_all(queue, batch=10) == [b"4"]


async def test_both_rules_hold_beside_each_other(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, retention_seconds=HOUR, completed_retention_seconds=MINUTE)
    for n in range(3):
        await queue.push("orders", drafts(1, first=n))
    await queue.ack(await pop(queue))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 1
    clock.advance(HOUR)
    assert await queue.sweep() == 2

    history = await queue.queues.removals("orders")
    assert lines(history) == [("retention", 2), ("completed", 1)]


# Only what readers of the journal have passed.


async def begin(queue: Broker, group: str = "archive", start: Start = "earliest") -> None:
    await queue.reader_groups.begin(group, ORDERS, start, lambda _: True)


async def move(queue: Broker, messages: int, group: str = "archive") -> None:
    """Let a reader have passed so many messages of the only lane that there is."""
    position = (await queue.journal.look(ORDERS, lambda _: True)).heads
    place = position.queues["orders"]
    lanes = dict.fromkeys(place.lanes, messages)
    await queue.reader_groups.move(
        group, replace(position, queues={"orders": replace(place, lanes=lanes)})
    )


async def push_in_turn(queue: Broker, count: int, *partitions: str) -> None:
    for number in range(count):
        for partition in partitions:
            await queue.push("orders", drafts(1, partition, first=number))


@pytest.mark.one_server("moves a reader to a position of one lane")
async def test_completed_messages_wait_for_who_reads_the_journal(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, completed_retention_seconds=MINUTE)
    await push_in_turn(queue, 4, "Default")
    await queue.ack(await pop(queue, batch=4))
    await begin(queue)
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 0
    await move(queue, 3)
    assert await queue.sweep() == 3

    assert await kept(queue) == [b"3"]


@pytest.mark.one_server("moves a reader to a position of one lane")
async def test_each_partition_waits_for_a_reader_by_its_own_messages(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, completed_retention_seconds=MINUTE)
    await push_in_turn(queue, 3, "alice", "bob")
    await begin(queue)
    await move(queue, 3)
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 3

    assert await bounds(queue) == {"alice": (2, 3), "bob": (1, 3)}


@pytest.mark.one_server("moves a reader to a position of one lane")
async def test_completed_messages_wait_for_the_slowest_reader_and_the_slowest_group(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, completed_retention_seconds=MINUTE)
    await push_in_turn(queue, 4, "Default")
    for group in ("archive", "search"):
        await begin(queue, group)
    await move(queue, 4, "archive")
    await move(queue, 2, "search")
    await queue.ack(await pop(queue, batch=1))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 1
    await queue.ack(await pop(queue, batch=3))
    assert await queue.sweep() == 1
    await queue.reader_groups.forget("search")
    assert await queue.sweep() == 2


async def test_a_reader_in_the_middle_of_what_was_pushed_together_keeps_all_of_it(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, completed_retention_seconds=MINUTE)
    await queue.push("orders", drafts(3))
    await begin(queue)
    await move(queue, 2)
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 0
    await move(queue, 3)
    assert await queue.sweep() == 3


async def test_what_a_reader_has_passed_stays_until_it_is_old_enough(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, completed_retention_seconds=MINUTE)
    await queue.push("orders", drafts(1))
    clock.advance(MINUTE)
    await queue.push("orders", drafts(1, first=1))
    await begin(queue, start="latest")
    clock.advance(1)

    assert await queue.sweep() == 1

    assert await kept(queue) == [b"1"]


@pytest.mark.one_server("moves a reader to a position of one lane")
async def test_many_messages_that_a_reader_has_passed_all_go_in_one_sweep(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, completed_retention_seconds=MINUTE)
    for _ in range(3):
        # Larger than what is looked at in one step.
        await queue.push("orders", [Draft(b"x" * 3_000_000)])
    await push_in_turn(queue, 2, "Default")
    await begin(queue)
    await move(queue, 4)
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 4


async def test_a_reader_of_another_queue_holds_nothing(queue: Broker, clock: ManualClock) -> None:
    await queue.push("others", drafts(1))
    others = Selection(queues=("others",))
    await queue.reader_groups.begin("archive", others, "earliest", lambda _: True)
    await keep(queue, completed_retention_seconds=MINUTE)
    await queue.push("orders", drafts(1))
    await queue.ack(await pop(queue))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 1


async def test_a_reader_of_a_queue_that_was_made_anew_holds_nothing_of_the_new_one(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    await begin(queue)
    await queue.queues.delete("orders")
    await keep(queue, completed_retention_seconds=MINUTE)
    await queue.push("orders", drafts(1))
    await queue.ack(await pop(queue))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 1


async def test_a_rule_that_is_made_during_a_sweep_does_not_pass_over_readers(
    held: GatedStore, clock: ManualClock
) -> None:
    async with make_broker(held) as queue:
        await queue.queues.configure("orders", max_wait_time_seconds=MINUTE)
        await queue.push("orders", drafts(1, "late"))
        await queue.push("orders", drafts(2, "done"))
        await queue.ack(await pop(queue, partition="done", batch=2))
        await begin(queue)
        clock.advance(MINUTE + 1)

        held.hold()
        sweep = await start(queue.sweep())  # waits for the write by which it evicts
        await keep(queue, completed_retention_seconds=1)
        held.release()
        await finish(sweep)

        assert (await bounds(queue))["done"] == (0, 2)


async def test_retention_by_age_alone_waits_for_no_reader(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE)
    await queue.push("orders", drafts(2))
    await begin(queue)
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 2


@pytest.fixture
def database() -> str:
    return databases().empty()


async def test_a_partition_waits_in_each_lane_for_what_its_reader_has_passed_there(
    database: str, clock: ManualClock
) -> None:
    """What two servers commit to a partition lies in two lanes."""
    async with (
        make_broker(open_store(database, clock=clock)) as one,
        make_broker(open_store(database, clock=clock)) as other,
    ):
        await keep(one, completed_retention_seconds=MINUTE)
        for number, broker in enumerate((one, other, one, other)):
            await broker.push("orders", drafts(1, first=number))
        await begin(one)
        position = (await one.journal.look(ORDERS, lambda _: True)).heads
        place = position.queues["orders"]
        first, second = (one._store.lane, other._store.lane)
        clock.advance(MINUTE + 1)

        removed = []
        for passed in ((0, 2), (1, 2), (2, 1)):
            lanes = dict(zip((first, second), passed, strict=True))
            moved = replace(position, queues={"orders": replace(place, lanes=lanes)})
            await one.reader_groups.move("archive", moved)
            removed.append(await one.sweep())

        assert removed == [0, 2, 1]


# What does not happen.


async def test_nothing_is_removed_where_retention_is_not_enabled(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure(
        "orders", retention_enabled=False, retention_seconds=1, completed_retention_seconds=1
    )
    await queue.push("orders", drafts(1))
    await queue.ack(await pop(queue))
    clock.advance(HOUR)

    assert await queue.sweep() == 0

    assert await kept(queue) == [b"0"]


async def test_nothing_is_removed_where_no_age_is_given(queue: Broker, clock: ManualClock) -> None:
    await keep(queue)
    await queue.push("orders", drafts(1))
    await queue.ack(await pop(queue))
    clock.advance(1000 * HOUR)

    assert await queue.sweep() == 0


async def test_sweeping_twice_removes_nothing_more(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, retention_seconds=MINUTE)
    await queue.push("orders", drafts(2))
    clock.advance(MINUTE + 1)
    await queue.push("orders", drafts(1, first=2))
    await queue.sweep()
    before = await kept(queue), await queue.queues.removals("orders")

    assert await queue.sweep() == 0

    assert (await kept(queue), await queue.queues.removals("orders")) == before


async def test_two_sweeps_at_the_same_time_count_each_message_once(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE)
    for n in range(5):
        await queue.push("orders", drafts(1, f"p{n}"))
    clock.advance(MINUTE + 1)

    removed = await asyncio.gather(queue.sweep(), queue.sweep(), queue.sweep())

    assert sum(removed) == 5
    assert await bounds(queue) == {f"p{n}": (1, 1) for n in range(5)}
    assert (await queue.queues.stats("orders")).messages == 0
    assert sum(n for _, n in lines(await queue.queues.removals("orders"))) == 5


@pytest.mark.one_server("commits of two servers in one instant have no order")
async def test_a_push_during_a_sweep_is_kept(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, retention_seconds=MINUTE)
    for n in range(150):
        await queue.push("orders", drafts(1, first=n))
    clock.advance(MINUTE + 1)

    removed, *_ = await asyncio.gather(
        queue.sweep(), *(queue.push("orders", drafts(1, first=150 + n)) for n in range(5))
    )

    assert removed == 150
    assert await kept(queue) == [b"%d" % n for n in range(150, 155)]
    assert await pop_all(queue, batch=10) == [b"%d" % n for n in range(150, 155)]


# What is written down, and who is told.


async def test_every_removal_is_written_down_with_its_rule_and_its_time(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE)
    (receipt, *_) = await queue.push("orders", drafts(2, "alice"))
    clock.advance(MINUTE + 1)
    await queue.sweep()

    (line,) = await queue.queues.removals("orders")

    assert line == Removal(
        queue=(await queue.queues.get("orders")).number,
        partition=receipt.partition_number,
        kind="retention",
        messages=2,
        executed_at=clock.now(),
    )


async def test_the_history_comes_newest_first_and_as_much_as_asked_for(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE)
    for n in range(1, 4):
        await queue.push("orders", drafts(n))
        clock.advance(MINUTE + 1)
        await queue.sweep()

    assert lines(await queue.queues.removals("orders")) == [("retention", n) for n in (3, 2, 1)]
    assert lines(await queue.queues.removals("orders", limit=1)) == [("retention", 3)]


async def test_a_sweep_that_removed_nothing_leaves_no_line(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE)
    await queue.push("orders", drafts(1))
    clock.advance(1)

    await queue.sweep()

    assert await queue.queues.removals("orders") == []


async def test_a_group_is_told_how_many_messages_it_missed(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE)
    await queue.push("orders", drafts(1))
    await queue.ack(await pop(queue, group="slow"))
    await queue.push("orders", drafts(3, first=1))
    clock.advance(MINUTE + 1)
    await queue.push("orders", drafts(2, first=4))
    await queue.sweep()

    first = await pop(queue, group="slow")
    await queue.ack(first)
    second = await pop(queue, group="slow")

    assert (payloads(first), first.truncated) == ([b"4"], 3)
    assert (payloads(second), second.truncated) == ([b"5"], 0)


async def test_a_new_group_has_missed_nothing(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, retention_seconds=MINUTE)
    await queue.push("orders", drafts(3))
    clock.advance(MINUTE + 1)
    await queue.push("orders", drafts(1, first=3))
    await queue.sweep()

    delivery = await pop(queue, group="new")

    assert (payloads(delivery), delivery.truncated) == ([b"3"], 0)


async def test_a_group_in_the_middle_of_what_was_removed_goes_on_behind_it(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE, lease_time=HOUR)
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=4)
    await queue.ack(delivery, delivery.messages[:1])
    clock.advance(MINUTE + 1)
    await queue.push("orders", drafts(1, first=4))
    await queue.sweep()

    assert await cursors(queue) == {"Default": 4}
    assert await backlogs(queue) == {"Default": 1}
    await queue.ack(delivery)
    assert await pop_all(queue, batch=10) == [b"4"]


async def test_a_batch_that_failed_and_was_removed_does_not_hold_the_partition(
    queue: Broker, clock: ManualClock
) -> None:
    await keep(queue, retention_seconds=MINUTE, retry_limit=5)
    await queue.push("orders", drafts(2))
    await queue.fail(await pop(queue, batch=2))
    clock.advance(MINUTE + 1)
    await queue.push("orders", drafts(2, first=2))
    await queue.sweep()

    delivery = await pop(queue, batch=10)

    assert payloads(delivery) == [b"2", b"3"]
    assert {message.attempt for message in delivery.messages} == {1}


async def test_what_was_removed_stays_removed_for_the_next_process(
    store: Store, clock: ManualClock
) -> None:
    before = await make_broker(store).__aenter__()
    await keep(before, retention_seconds=MINUTE)
    await before.push("orders", drafts(2))
    await before.ack(await pop(before))
    clock.advance(MINUTE + 1)
    await before.push("orders", drafts(1, first=2))
    await before.sweep()
    expected = await bounds(before), await cursors(before), await backlogs(before)

    async with make_broker(store) as after:
        found = await bounds(after), await cursors(after), await backlogs(after)
        delivery = await pop(after)

    assert found == expected == ({"Default": (2, 3)}, {"Default": 2}, {"Default": 1})
    assert (payloads(delivery), delivery.truncated) == ([b"2"], 1)


async def test_traces_of_a_message_go_with_it(queue: Broker, clock: ManualClock) -> None:
    await keep(queue, retention_seconds=MINUTE)
    (receipt,) = await queue.push("orders", drafts(1))
    await queue.traces.record(receipt.id, "info", b"{}", names=["checkout"])
    clock.advance(MINUTE + 1)

    await queue.sweep()

    assert await queue.traces.events(receipt.id) == []
    assert await queue.traces.named("checkout") == []


async def test_the_history_of_removals_reaches_back_ninety_days(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retention_enabled=True, retention_seconds=1)
    for _ in range(4):
        await queue.push("orders", drafts(1))
        clock.advance(30 * DAY)
        await queue.sweep()

    found = await queue.queues.removals("orders")

    ages = [(clock.now() - line.executed_at) // SECOND // DAY for line in found]
    assert ages == [0, 30, 60, 90]
    clock.advance(1)
    await queue.sweep()
    assert len(await queue.queues.removals("orders")) == 3
