"""Producers that never give up, whatever happens to the servers they talk to."""

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack

from skep import AsyncClient, Draft
from skep.client.retry import Retry
from skep.errors import SkepError

PATIENT = Retry(attempts=100, max_delay=0.5)
"""Longer than any restart, on any machine."""


class Load:
    """Producers that never give up, and what was answered to them."""

    def __init__(self, *urls: str) -> None:
        self._urls = urls
        # Who has another server to go to does not wait for this one.
        self._retry = PATIENT if len(urls) == 1 else Retry(attempts=1)
        self._stopping = False
        self.answered: dict[str, list[str]] = defaultdict(list)
        self.errors: list[SkepError] = []
        """What they saw although they tried again."""
        self.progress = asyncio.Condition()

    async def produce(self, number: int) -> None:
        """Push in order, and go on with the next only when the one before is stored."""
        partition, count = f"p{number}", 0
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(AsyncClient(url, retry=self._retry))
                for url in self._urls
            ]
            while not self._stopping:
                size = count % 7 + 1
                ids = [f"{partition}-{count + n}" for n in range(size)]
                drafts = [Draft(chosen.encode(), partition, chosen) for chosen in ids]
                await self._until_stored(clients, count, drafts)
                count += size
                self.answered[partition] += ids
                async with self.progress:
                    self.progress.notify_all()

    async def _until_stored(
        self, clients: list[AsyncClient], turn: int, drafts: list[Draft]
    ) -> None:
        while True:
            turn += 1
            try:
                await clients[turn % len(clients)].push("orders", drafts)
                return
            except SkepError as error:
                self.errors.append(error)

    def stop(self) -> None:
        self._stopping = True

    def total(self) -> int:
        return sum(map(len, self.answered.values()))

    async def until(self, total: int) -> None:
        async with self.progress:
            await self.progress.wait_for(lambda: self.total() >= total)


async def everything(url: str, queue: str = "orders") -> dict[str, list[str]]:
    """What a queue holds, by partition, as a new group reads it."""
    found: dict[str, list[str]] = defaultdict(list)
    async with AsyncClient(url, retry=PATIENT) as client:
        while delivery := await client.pop(queue, group="checker", batch=1000, partitions=9):
            for message in delivery.messages:
                found[message.partition].append(message.payload.decode())
            await client.ack(delivery)
    return found
