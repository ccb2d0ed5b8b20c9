"""What the clients of this package do, from Python to Python: single drafts in, deliveries out."""

import time

import uvloop

from skep import AsyncClient, AsyncProducer, AsyncWorker, Draft
from skep.model.message import Message

PARTITIONS = 100
PAYLOAD = b'{"order": 12345, "text": "' + b"x" * 170 + b'"}'


async def _produce(client: AsyncClient, messages: int) -> float:
    begin = time.perf_counter()
    async with AsyncProducer(client) as producer:
        for number in range(messages):
            await producer.push("sdk", Draft(PAYLOAD, f"p{number % PARTITIONS}"))
    return messages / (time.perf_counter() - begin)


async def _consume(client: AsyncClient, messages: int) -> float:
    left = messages
    worker = AsyncWorker(
        client, "sdk", group="bench", batch=500, partitions=PARTITIONS, concurrency=4
    )

    @worker.batch_handler
    async def count(messages: list[Message]) -> None:
        nonlocal left
        left -= len(messages)
        if not left:
            worker.stop()

    begin = time.perf_counter()
    await worker.run()
    return messages / (time.perf_counter() - begin)


async def _measure(url: str, messages: int) -> tuple[float, float]:
    async with AsyncClient(url) as client:
        return await _produce(client, messages), await _consume(client, messages)


def measure(url: str, messages: int) -> tuple[float, float]:
    """Messages per second, produced and consumed."""
    return uvloop.run(_measure(url, messages))
