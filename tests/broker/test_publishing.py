"""A version that is too large for one change is decided in one, and then published to its end."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from skep import Broker
from skep.errors import OutcomeUnknown, QueueFull, Unavailable
from skep.model.sink import Stage
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import until
from tests.support.sink_builders import (
    APP,
    DUPLICATE,
    FailingStores,
    commit,
    left,
    numbers,
    payloads,
    published,
    rows,
    stage,
)

ROWS = 10
ALL = [b"%d" % number for number in range(ROWS)]
DECISION, STEPS = 1, 5
"""The commits of a version of ten rows in five chunks."""


@pytest.fixture(params=["memory", "rocksdb", "postgres"])
def mortals(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> FailingStores:
    return FailingStores(request.param, tmp_path / "store", clock)


async def _is_committed(queue: Broker) -> bool:
    return await queue.sink.last_version(APP) is not None


async def _is_empty(store: Store) -> bool:
    return await left(store) == {}


async def stage_ten(queue: Broker, version: int = 0) -> list[Stage]:
    return [
        await stage(queue, "a", numbers(0, 2), numbers(2, 4), version=version),
        await stage(queue, "b", numbers(4, 6), numbers(6, 8), numbers(8, 10), version=version),
    ]


async def test_it_is_published_in_order_and_nothing_is_left_of_it(mortals: FailingStores) -> None:
    async with mortals.run() as (queue, store):
        done = await stage_ten(queue)
        store.commits = DECISION + STEPS

        assert await commit(queue, *done) == published(ROWS)

        store.commits = 100
        assert await payloads(queue) == ALL
        assert await left(store) == {}
        assert await commit(queue, *done) == DUPLICATE


@pytest.mark.parametrize("commits", range(DECISION, DECISION + STEPS))
async def test_the_same_commit_goes_on_where_the_server_died(
    mortals: FailingStores, commits: int
) -> None:
    async with mortals.run() as (queue, store):
        done = await stage_ten(queue)
        store.commits = commits
        with pytest.raises(OutcomeUnknown):
            await commit(queue, *done)

    async with mortals.run() as (queue, store):
        assert await commit(queue, *done) == DUPLICATE

        assert await payloads(queue) == ALL
        assert await left(store) == {}


async def test_nothing_is_committed_if_the_server_died_before_it_was_decided(
    mortals: FailingStores,
) -> None:
    async with mortals.run() as (queue, store):
        done = await stage_ten(queue)
        store.commits = 0
        with pytest.raises(Unavailable):
            await commit(queue, *done)

    async with mortals.run() as (queue, store):
        assert await queue.sink.last_version(APP) is None
        assert await commit(queue, *done) == published(ROWS)

        assert await payloads(queue) == ALL


@pytest.mark.parametrize("commits", range(1, DECISION + STEPS + 1))
async def test_a_commit_whose_answer_was_lost_is_not_done_twice(
    mortals: FailingStores, commits: int
) -> None:
    async with mortals.run() as (queue, store):
        done = await stage_ten(queue)
        store.commits, store.loses = commits, True
        with pytest.raises(OutcomeUnknown):
            await commit(queue, *done)

    async with mortals.run() as (queue, store):
        assert await commit(queue, *done) == DUPLICATE

        assert await payloads(queue) == ALL
        assert await left(store) == {}


async def test_a_small_commit_whose_answer_was_lost_is_not_done_twice(
    mortals: FailingStores,
) -> None:
    async with mortals.run() as (queue, store):
        done = await stage(queue, "s", numbers(0, 3))
        store.commits, store.loses = 1, True
        with pytest.raises(OutcomeUnknown):
            await commit(queue, done)

    async with mortals.run() as (queue, store):
        assert await commit(queue, done) == DUPLICATE

        assert await payloads(queue) == [b"0", b"1", b"2"]
        assert await left(store) == {}


async def test_a_later_version_comes_after_all_of_the_one_that_was_interrupted(
    mortals: FailingStores,
) -> None:
    async with mortals.run() as (queue, store):
        done = await stage_ten(queue)
        later = await stage(queue, "later", numbers(10, 12), version=1)
        store.commits = DECISION + 1
        with pytest.raises(OutcomeUnknown):
            await commit(queue, *done)

    async with mortals.run() as (queue, store):
        assert await commit(queue, later, version=1) == published(2)

        assert await payloads(queue) == [*ALL, b"10", b"11"]
        assert await left(store) == {}


async def test_the_sweeper_goes_on_with_what_nobody_goes_on_with(
    mortals: FailingStores, clock: ManualClock
) -> None:
    async with mortals.run() as (queue, store):
        done = await stage_ten(queue)
        store.commits = DECISION + 2
        with pytest.raises(OutcomeUnknown):
            await commit(queue, *done)

    async with mortals.run() as (queue, store):
        await queue.sweep()
        # Another server may be at it, if there can be one.
        assert (await left(store) == {}) == (not store.shared)
        clock.advance(10)
        await queue.sweep()

        assert await left(store) == {}
        assert await payloads(queue) == ALL


async def test_a_store_that_is_away_does_not_end_the_sweep(
    mortals: FailingStores, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with mortals.run() as (queue, store):
        done = await stage_ten(queue)
        store.commits = DECISION
        with pytest.raises(OutcomeUnknown):
            await commit(queue, *done)
        clock.advance(10)

        await queue.sweep()

        assert "could not publish all of a committed version" in caplog.text


async def test_a_job_that_is_not_all_published_is_not_forgotten(
    mortals: FailingStores, clock: ManualClock
) -> None:
    async with mortals.run() as (queue, store):
        done = await stage(queue, "s", numbers(0, 5), numbers(5, 10), version=None)
        store.commits = DECISION
        with pytest.raises(OutcomeUnknown):
            await commit(queue, done, version=None)

    async with mortals.run() as (queue, store):
        await queue.maintenance.set_pushing(True)
        clock.advance(30 * 24 * 3600)
        await queue.sweep()
        await queue.maintenance.set_pushing(False)
        await queue.sweep()

        assert await payloads(queue) == ALL
        assert await left(store) == {}


async def test_a_server_that_starts_goes_on_by_itself(
    mortals: FailingStores, clock: ManualClock
) -> None:
    async with mortals.run() as (queue, store):
        done = await stage_ten(queue)
        store.commits = DECISION + 2
        with pytest.raises(OutcomeUnknown):
            await commit(queue, *done)
    clock.advance(10)
    store = mortals.open()

    async with Broker(store, sweep_interval=3600) as queue:
        await until(partial(_is_empty, store))

        assert await payloads(queue) == ALL


async def test_what_is_decided_is_neither_aborted_nor_replaced_nor_swept(
    mortals: FailingStores, clock: ManualClock
) -> None:
    async with mortals.run() as (queue, store):
        done = await stage_ten(queue)
        store.commits = DECISION
        with pytest.raises(OutcomeUnknown):
            await commit(queue, *done)

    async with mortals.run() as (queue, store):
        await queue.sink.abort(APP, 0, done)
        await stage(queue, "b", numbers(90, 92))
        clock.advance(25 * 3600)
        await queue.sweep()

        assert await payloads(queue) == ALL
        assert await left(store) == {}


async def test_a_queue_that_is_gone_when_it_goes_on_is_made_again(mortals: FailingStores) -> None:
    async with mortals.run() as (queue, store):
        done = await stage_ten(queue)
        store.commits = DECISION + 2
        with pytest.raises(OutcomeUnknown):
            await commit(queue, *done)

    async with mortals.run() as (queue, store):
        await queue.queues.delete("orders")
        await commit(queue, *done)

        assert await payloads(queue) == ALL[4:]


async def test_a_full_queue_refuses_it_before_it_is_decided(mortals: FailingStores) -> None:
    async with mortals.run() as (queue, _):
        await queue.queues.configure("orders", max_size=ROWS - 1)
        done = await stage_ten(queue)

        with pytest.raises(QueueFull):
            await commit(queue, *done)

        assert await queue.sink.last_version(APP) is None
        assert await queue.pop("orders") is None


async def test_a_broker_that_closes_leaves_the_rest_to_the_next(mortals: FailingStores) -> None:
    async with mortals.run() as (queue, _):
        done = await stage_ten(queue)
        caller = asyncio.ensure_future(commit(queue, *done))
        await until(partial(_is_committed, queue))

    answer = (await asyncio.gather(caller, return_exceptions=True))[0]
    assert isinstance(answer, OutcomeUnknown) or answer == published(ROWS)
    async with mortals.run() as (queue, _):
        await commit(queue, *done)

        assert await payloads(queue) == ALL


async def test_transaction_ids_count_across_the_steps(mortals: FailingStores) -> None:
    async with mortals.run() as (queue, _):
        some = rows(b"1", b"2", b"3", ids=["a", "b", "c"])
        more = rows(b"4", b"5", b"6", ids=["b", "d", "a"])

        await commit(queue, await stage(queue, "s", some, more))

        assert await payloads(queue) == [b"1", b"2", b"3", b"5"]
