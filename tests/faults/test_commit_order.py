"""Large and small pushes to one partition, while it is read: nothing is overtaken or skipped."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

import skep
from tests.support.faults.history import Recorder, read
from tests.support.faults.history_checker import check
from tests.support.faults.recording_clients import Consumer, Producer, Queue, audit
from tests.support.faults.store_servers import clients_of, start_servers
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.xdist_group("killed")

LARGE, LARGE_PUSHES = 1000, 12
SMALL_PUSHES = 400
GROUPS = ("fast", "slow")
MESSAGES = 2 * LARGE * LARGE_PUSHES + 2 * SMALL_PUSHES
LEASE_SECONDS = 60


@pytest.fixture(params=["embedded", "two servers on PostgreSQL"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[ServerProcess]]:
    if request.param == "embedded":
        yield []
        return
    with start_servers("postgres", tmp_path) as servers:
        yield servers


@pytest.fixture
async def queues(servers: list[ServerProcess], tmp_path: Path) -> AsyncIterator[list[Queue]]:
    """The same queue, at every place where it can be asked."""
    if servers:
        async with clients_of(servers) as clients:
            yield list(clients)
        return
    async with skep.open(tmp_path / "store", sweep_interval=None) as broker:
        yield [broker]


async def test_pushes_of_every_size_are_delivered_in_the_order_of_their_commits(
    queues: list[Queue], tmp_path: Path
) -> None:
    recorder = Recorder(tmp_path / "history.jsonl", "one")

    async with asyncio.TaskGroup() as work:
        for name in ("large1", "large2"):
            work.create_task(produce(queues, recorder, name, LARGE, LARGE_PUSHES))
        for name in ("small1", "small2"):
            work.create_task(produce(queues, recorder, name, 1, SMALL_PUSHES))
        for group, batch in zip(GROUPS, (700, 250), strict=True):
            work.create_task(consume(queues, recorder, group, batch))
    await audit(queues[0], recorder)

    history = read([tmp_path / "history.jsonl"])
    assert check(history) == []
    assert len({seen.offset for op in history for seen in op.seen}) == MESSAGES


async def produce(
    queues: list[Queue], recorder: Recorder, name: str, size: int, pushes: int
) -> None:
    """One push after the other, each where chance has it."""
    random = Random(name)
    each = [Producer(queue, recorder, random) for queue in queues]
    for number in range(pushes):
        values = [f"{name}-{number * size + index}" for index in range(size)]
        assert await random.choice(each).push(name, "p", values, ids=number % 2 == 0)


async def consume(queues: list[Queue], recorder: Recorder, group: str, batch: int) -> None:
    """Until all has come, acknowledging the end of a delivery before its beginning."""
    random = Random(group)
    each = [Consumer(queue, recorder, random, group, LEASE_SECONDS) for queue in queues]
    done = 0
    while done < MESSAGES:
        delivery = await random.choice(each).pop(batch=batch, wait=1)
        if delivery:
            half = len(delivery.messages) // 2
            await random.choice(each).complete(delivery, delivery.messages[half:])
            if half:
                await random.choice(each).complete(delivery, delivery.messages[:half])
            done += len(delivery.messages)
