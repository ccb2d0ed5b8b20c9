"""Totals are kept, not counted on demand: they are exact, and asking for them is no loop."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from skep import Broker, Draft
from skep.core import aio as fairness
from skep.core.state.queue_state import QueueState
from skep.core.state.totals_updater import _MANY
from skep.model.queue import Partition
from skep.model.stats import Counts
from skep.store.memory import MemoryStore
from skep.store.open import open_store
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, make_broker, pop, until
from tests.support.expected_totals import check_totals
from tests.support.random_workload import QUEUES, Wanderer

T = TypeVar("T")
STEPS = 300


@asynccontextmanager
async def many_partitions(partitions: int, clock: ManualClock) -> AsyncIterator[Broker]:
    """A queue with one message in each of many partitions, and two groups: one has read all."""
    async with make_broker(MemoryStore(clock=clock)) as broker:
        await broker.push("orders", [Draft(b"1", f"p{n}") for n in range(partitions)])
        await pop(broker, group="stock")
        while await broker.pop(
            "orders", group="billing", batch=1000, partitions=100, auto_ack=True
        ):
            pass
        yield broker


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(3))
async def test_totals_are_what_a_loop_gives_whatever_was_done(
    store: Store, clock: ManualClock, seed: int
) -> None:
    async with make_broker(store) as broker:
        await wander([broker], clock, seed)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(3))
async def test_totals_are_what_a_loop_gives_at_each_of_two_servers(
    clock: ManualClock, url: str, seed: int
) -> None:
    async with (
        make_broker(open_store(url, clock=clock)) as first,
        make_broker(open_store(url, clock=clock)) as second,
    ):
        await wander([first, second], clock, seed)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(3))
async def test_totals_are_what_a_loop_gives_after_each_restart(
    clock: ManualClock, tmp_path: Path, seed: int
) -> None:
    async with make_broker(open_store(tmp_path, clock=clock)) as broker:
        wanderer = Wanderer([broker], clock, seed)
        await wanderer.configure()
    for _ in range(15):
        async with make_broker(open_store(tmp_path, clock=clock)) as broker:
            await check_totals(broker, *QUEUES)
            wanderer.brokers = [broker]
            for _ in range(STEPS // 15):
                await wanderer.step()
            await check_totals(broker, *QUEUES)


async def wander(brokers: list[Broker], clock: ManualClock, seed: int) -> None:
    wanderer = Wanderer(brokers, clock, seed)
    await wanderer.configure()
    for step in range(STEPS):
        await wanderer.step()
        if step % (1 + seed) == 0:
            for broker in brokers:
                await check_totals(broker, *QUEUES)


async def test_a_lease_over_messages_that_were_removed_counts_until_it_ends(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", lease_time=10)
    await queue.push("orders", drafts(2))
    await pop(queue, batch=2)
    await queue.queues.clear("orders")

    (before,) = await queue.groups.list("orders")
    clock.advance(10)
    (after,) = await queue.groups.list("orders")

    assert (before.leased_partitions, before.members) == (1, 1)
    assert (after.leased_partitions, after.members) == (0, 0)


async def test_a_partition_that_is_found_with_messages_in_it_counts(clock: ManualClock) -> None:
    async with make_broker(MemoryStore(clock=clock)) as broker:
        await broker.queues.configure("orders", delayed_processing=60)
        assert await broker.pop("orders", group="billing") is None
        queue = broker._parts.registry.queue("orders")
        now, number = clock.now(), queue.config.number
        found = Partition(number=7, queue=number, name="a", created_at=now, end=2, first_at=now)

        broker._parts.registry.adopt(queue, found)

        assert (await broker.insight.queues.queue("orders")).counts == Counts(total=2, pending=2)


async def test_a_partition_that_is_gone_does_not_count(clock: ManualClock) -> None:
    async with make_broker(MemoryStore(clock=clock)) as broker:
        await broker.push("orders", [*drafts(1, "a"), *drafts(2, "b"), *drafts(3, "c")])
        await pop(broker, partition="a", group="billing")
        await check_totals(broker, "orders")

        for partition in broker._parts.registry.partitions_of("orders", None)[:2]:
            broker._parts.registry.drop_partition(partition)

        await check_totals(broker, "orders")


async def test_others_run_while_all_leases_are_bounded_after_the_clock_was_set_back(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with many_partitions(100, clock) as broker:
        monkeypatch.setattr(fairness, "_FREE_SECONDS", 0)
        monkeypatch.setattr(fairness, "SLICE_SECONDS", 0)
        clock.advance(-3600)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await broker._parts.loader.bound()
        counting.cancel()

        assert turns >= 100


async def test_a_lease_counts_again_when_the_clock_is_set_back(clock: ManualClock) -> None:
    async with many_partitions(3, clock) as broker:
        clock.advance(301)
        await check_totals(broker, "orders")

        clock.advance(-3600)
        await broker._parts.loader.bound()

        await check_totals(broker, "orders")
        (lag,) = [lag for lag in await broker.groups.list("orders") if lag.group == "stock"]
        assert lag.leased_partitions == 1


async def test_totals_of_many_partitions_are_told_without_a_pause(clock: ManualClock) -> None:
    async with many_partitions(3000, clock) as broker:
        queues = await broker.insight.queues.find(lambda name: True)
        await broker.insight.queues.queues(queues)

        summary = at_once(broker.insight.queues.queue("orders"))
        listed = at_once(broker.groups.list("orders"))

    assert summary.counts == Counts(total=3000, pending=2999, processing=1)
    assert summary.messages_consumed == 3000
    assert {lag.group: lag.backlog for lag in listed} == {"billing": 0, "stock": 3000}


async def test_what_has_changed_is_counted_in_the_background_when_it_is_much() -> None:
    async with make_broker(MemoryStore(clock=ManualClock())) as broker:
        await broker.push("orders", [Draft(b"1", f"p{n}") for n in range(_MANY)])
        await pop(broker, group="billing")
        state = broker._parts.registry.queue("orders")
        assert not state.totals.pending

        broker._parts.totals_updater.start(0.001)
        await broker.push("orders", drafts(1))

        await until(lambda: counted(state))
        assert state.totals.pending == _MANY
        await broker._parts.totals_updater.stop()


async def test_a_partition_that_every_group_has_read_is_not_held(clock: ManualClock) -> None:
    async with many_partitions(100, clock) as broker:
        while await broker.pop("orders", group="stock", batch=99, partitions=9, auto_ack=True):
            pass
        clock.advance(301)
        await broker.pop("orders", group="stock", auto_ack=True)

        summary = await broker.insight.queues.queue("orders")

        state = broker._parts.registry.queue("orders")
        assert summary.counts == Counts(total=100)
        assert await counted(state)
        assert not state.totals._counted
        assert not any(g.totals.waiting or g.totals.leased for g in state.groups.values())


async def counted(queue: QueueState) -> bool:
    return not queue.changed and not queue.totals.uncounted


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """The result of a call that must not wait for anything."""
    try:
        call.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    call.close()
    raise AssertionError("it gave others their turn")
