"""``skep bench``: the throughput of a server, measured from this machine."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Annotated
from uuid import uuid4

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect_async
from skep.cli.options import Json
from skep.cli.output import Step
from skep.client.async_client import AsyncClient
from skep.client.produce.async_producer import AsyncProducer
from skep.errors import SkepError, Unavailable
from skep.model.message import Draft, Receipt

CONSUMERS = 4
WAIT_SECONDS = 2.0
"""A consumer ends after waiting this long for a message."""

Messages = Annotated[int, typer.Option(min=1, help="Number of messages.")]
Batch = Annotated[int, typer.Option(min=1, help="Maximum messages per request.")]
Partitions = Annotated[int, typer.Option(min=1, help="Number of partitions.")]
Size = Annotated[int, typer.Option(min=2, help="Payload size in bytes.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchLoad:
    """The messages to push and consume."""

    queue: str
    messages: int
    batch: int
    partitions: int
    size: int

    @property
    def payload(self) -> bytes:
        return b'"' + b"x" * (self.size - 2) + b'"'


def bench(
    messages: Messages = 10_000,
    batch: Batch = 100,
    partitions: Partitions = 10,
    size: Size = 200,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Measure the throughput of pushes and pops.

    Messages are stored durably in a temporary queue bench-<random>, popped under leases and
    acknowledged. The queue is deleted at the end.
    """
    load = BenchLoad(
        queue=f"bench-{uuid4().hex[:12]}",
        messages=messages,
        batch=batch,
        partitions=partitions,
        size=size,
    )
    pushing, consuming = asyncio.run(_measure(connect_async(url, token), load))
    figures = {
        "messages": messages,
        "pushedPerSecond": round(messages / pushing),
        "consumedPerSecond": round(messages / consuming),
    }
    rows = [
        ("push", messages, f"{pushing:.2f}", figures["pushedPerSecond"]),
        ("pop and ack", messages, f"{consuming:.2f}", figures["consumedPerSecond"]),
    ]
    columns = ("", "messages", "seconds", "per second")
    output.print_list(figures, columns, rows, as_json=as_json)


async def _measure(client: AsyncClient, load: BenchLoad) -> tuple[float, float]:
    """Return the seconds that pushing and consuming took. The queue is always deleted."""
    async with client:
        try:
            return await _push(client, load), await _consume(client, load)
        finally:
            # The first error is the one to report.
            with suppress(SkepError):
                await client.queues.delete(load.queue)


async def _push(client: AsyncClient, load: BenchLoad) -> float:
    payload, begin = load.payload, perf_counter()
    receipts: list[asyncio.Future[Receipt]] = []
    with output.progress("pushing", load.messages) as step:
        async with AsyncProducer(client, max_batch=load.batch) as producer:
            for number in range(load.messages):
                draft = Draft(payload, f"p{number % load.partitions}")
                receipts.append(await producer.push(load.queue, draft))
                step(1)
        await asyncio.gather(*receipts)
    return perf_counter() - begin


@dataclass(slots=True)
class Remaining:
    """The number of messages still to be consumed, and when it reached zero."""

    messages: int
    ended_at: float = 0.0

    def take(self, count: int) -> None:
        self.messages -= count
        if self.messages <= 0:
            self.ended_at = perf_counter()


async def _consume(client: AsyncClient, load: BenchLoad) -> float:
    begin, remaining = perf_counter(), Remaining(load.messages)
    with output.progress("consuming", load.messages) as step:
        consumers = (_work(client, load, remaining, step) for _ in range(CONSUMERS))
        await asyncio.gather(*consumers)
    if remaining.messages > 0:
        raise Unavailable(
            f"{remaining.messages} messages were not delivered; are pops paused for maintenance?"
        )
    return remaining.ended_at - begin


async def _work(client: AsyncClient, load: BenchLoad, remaining: Remaining, step: Step) -> None:
    """Consume until no message is left."""
    while remaining.messages > 0:
        delivery = await client.pop(
            load.queue, batch=load.batch, partitions=load.partitions, wait=WAIT_SECONDS
        )
        if delivery is None:
            return
        await client.ack(delivery)
        remaining.take(len(delivery.messages))
        step(len(delivery.messages))
