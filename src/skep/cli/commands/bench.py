"""``skep bench``: how fast a server is, from here."""

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
"""A consumer that finds nothing for so long has nothing more to do."""

Messages = Annotated[int, typer.Option(min=1, help="How many messages.")]
Batch = Annotated[int, typer.Option(min=1, help="Messages per request at most.")]
Partitions = Annotated[int, typer.Option(min=1, help="Partitions to spread them over.")]
Size = Annotated[int, typer.Option(min=2, help="Bytes per payload.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchLoad:
    """What is pushed and consumed."""

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
    """Measure how many messages a second come and go.

    It makes a queue of its own, bench-<random>, and deletes it at the end. Everything is really
    stored, popped under leases and acknowledged.
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
    """Seconds that pushing and consuming took. What it made is gone, however it ends."""
    async with client:
        try:
            return await _push(client, load), await _consume(client, load)
        finally:
            # What went wrong before is what must be told.
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
class Rest:
    """What is still to be consumed, and when that was nothing any more."""

    messages: int
    ended_at: float = 0.0

    def take(self, count: int) -> None:
        self.messages -= count
        if self.messages <= 0:
            self.ended_at = perf_counter()


async def _consume(client: AsyncClient, load: BenchLoad) -> float:
    begin, rest = perf_counter(), Rest(load.messages)
    with output.progress("consuming", load.messages) as step:
        consumers = (_work(client, load, rest, step) for _ in range(CONSUMERS))
        await asyncio.gather(*consumers)
    if rest.messages > 0:
        raise Unavailable(f"{rest.messages} messages are with no consumer; is it in maintenance?")
    return rest.ended_at - begin


async def _work(client: AsyncClient, load: BenchLoad, rest: Rest, step: Step) -> None:
    """Consume until there is nothing more."""
    while rest.messages > 0:
        delivery = await client.pop(
            load.queue, batch=load.batch, partitions=load.partitions, wait=WAIT_SECONDS
        )
        if delivery is None:
            return
        await client.ack(delivery)
        rest.take(len(delivery.messages))
        step(len(delivery.messages))
