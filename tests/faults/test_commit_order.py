"""Large and small pushes to one partition, while it is read: nothing is overtaken or skipped."""

import asyncio
from pathlib import Path
from random import Random

import skep
from skep import Broker
from tests.faults.checker import check
from tests.faults.clients import SOURCE, Consumer, Producer, shown
from tests.faults.history import Invocation, Recorder, Return, Seen, read

LARGE, LARGE_PUSHES = 1000, 12
SMALL_PUSHES = 400
GROUPS = ("fast", "slow")
MESSAGES = 2 * LARGE * LARGE_PUSHES + 2 * SMALL_PUSHES


async def test_pushes_of_every_size_are_delivered_in_the_order_of_their_commits(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path / "history.jsonl", "one")

    async with skep.open(tmp_path / "store", sweep_interval=None) as broker:
        async with asyncio.TaskGroup() as work:
            for name in ("large1", "large2"):
                work.create_task(produce(broker, recorder, name, LARGE, LARGE_PUSHES))
            for name in ("small1", "small2"):
                work.create_task(produce(broker, recorder, name, 1, SMALL_PUSHES))
            for group, batch in zip(GROUPS, (700, 90), strict=True):
                work.create_task(consume(broker, recorder, group, batch))
        await audit(broker, recorder)

    history = read([tmp_path / "history.jsonl"])
    assert check(history) == []
    assert len({seen.offset for op in history for seen in op.seen}) == MESSAGES


async def produce(broker: Broker, recorder: Recorder, name: str, size: int, pushes: int) -> None:
    producer = Producer(broker, recorder, Random(name))
    for number in range(pushes):
        values = [f"{name}-{number * size + index}" for index in range(size)]
        assert await producer.push(name, "p", values, ids=number % 2 == 0)


async def consume(broker: Broker, recorder: Recorder, group: str, batch: int) -> None:
    """Until all has come, acknowledging the end of a delivery before its beginning."""
    consumer = Consumer(broker, recorder, Random(group), group)
    done = 0
    while done < MESSAGES:
        delivery = await consumer.pop(batch=batch, wait=1)
        if delivery:
            half = len(delivery.messages) // 2
            await consumer.complete(delivery, delivery.messages[half:])
            if half:
                await consumer.complete(delivery, delivery.messages[:half])
            done += len(delivery.messages)


async def audit(broker: Broker, recorder: Recorder) -> None:
    asked = recorder.invoke(Invocation(does="audit", queue=SOURCE, group="audit"))
    seen: list[Seen] = []
    while delivery := await broker.pop(SOURCE, group="audit", batch=1000, auto_ack=True):
        seen += map(shown, delivery.messages)
    recorder.answer(asked, Return(seen=seen))
