"""A chunk with many partitions or transaction ids is published in parts, each in its own commit."""

from pathlib import Path

import pytest

from skep import Broker, Limits
from skep.errors import OutcomeUnknown
from skep.model.sink import StagedRows
from skep.testing.clock import ManualClock
from tests.support.sink_builders import (
    APP,
    DUPLICATE,
    FailingStores,
    commit,
    left,
    payloads,
    published,
    rows,
    stage,
)

LIMITS = Limits(publish_partitions=8, publish_ids=8)
STEP = 2
ROWS = 9
NAMES = [f"n{number}" for number in range(ROWS)]
ALL = [b"%d" % number for number in range(ROWS)]
PARTITIONS = rows(*ALL, partitions=NAMES)
QUEUES = rows(*ALL, queues=NAMES)
IDS = rows(*ALL, ids=NAMES)


@pytest.fixture(params=["memory", "rocksdb", "postgres"])
def mortals(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> FailingStores:
    return FailingStores(request.param, tmp_path / "store", clock)


async def everything(queue: Broker) -> list[bytes]:
    """What was published of one of the chunks above, in the order of its rows."""
    found = await payloads(queue)
    for name in NAMES:
        found += await payloads(queue, partition=name)
        found += await payloads(queue, name)
    return found


@pytest.mark.parametrize("chunk", [PARTITIONS, QUEUES], ids=["partitions", "queues"])
async def test_a_commit_appends_to_a_limited_number_of_partitions(
    mortals: FailingStores, chunk: StagedRows
) -> None:
    async with mortals.run(LIMITS) as (queue, store):
        done = await stage(queue, "s", chunk)

        assert await commit(queue, done) == published(ROWS)

        assert store.most_partitions == STEP
        assert await everything(queue) == ALL
        assert await left(store) == {}


async def test_a_commit_appends_a_limited_number_of_transaction_ids(mortals: FailingStores) -> None:
    async with mortals.run(LIMITS) as (queue, store):
        done = await stage(queue, "s", IDS)

        assert await commit(queue, done) == published(ROWS)

        assert store.most_messages == STEP
        assert await payloads(queue) == ALL
        assert await left(store) == {}


async def test_parts_that_are_few_enough_are_published_in_one_commit(
    mortals: FailingStores,
) -> None:
    async with mortals.run(LIMITS) as (queue, store):
        done = await stage(queue, "s", rows(*ALL[:8], partitions=NAMES[:8]))

        await commit(queue, done)

        assert store.most_partitions == 8


@pytest.mark.parametrize("chunk", [PARTITIONS, QUEUES, IDS], ids=["partitions", "queues", "ids"])
@pytest.mark.parametrize("commits", [1, 3])
async def test_each_part_is_published_once_if_the_server_dies_between_them(
    mortals: FailingStores, commits: int, chunk: StagedRows
) -> None:
    async with mortals.run(LIMITS) as (queue, store):
        done = await stage(queue, "s", chunk)
        store.commits = commits
        with pytest.raises(OutcomeUnknown):
            await commit(queue, done)

    async with mortals.run(LIMITS) as (queue, store):
        assert await commit(queue, done) == DUPLICATE

        assert await everything(queue) == ALL
        assert await left(store) == {}


async def test_a_chunk_in_parts_is_replaced_and_dropped_whole(mortals: FailingStores) -> None:
    async with mortals.run(LIMITS) as (queue, store):
        await stage(queue, "s", PARTITIONS)
        done = await stage(queue, "s", PARTITIONS)
        assert await left(store) == {"sink.stages": 1, "sink.chunks": 5}

        await queue.sink.abort(APP, 0, [done])

        assert await left(store) == {}


async def test_the_same_rows_in_parts_are_a_repetition(mortals: FailingStores) -> None:
    async with mortals.run(LIMITS) as (queue, _):
        await commit(queue, await stage(queue, "s", PARTITIONS))
        halves = (
            rows(*ALL[:4], partitions=NAMES[:4]),
            rows(*ALL[4:], partitions=NAMES[4:]),
        )

        assert await commit(queue, await stage(queue, "t", *halves)) == DUPLICATE
