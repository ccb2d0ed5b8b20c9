"""Two queues, the door in front of them, and those who knock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from skep import Broker
from skep.http.app import App
from skep.http.routes import all_routes
from skep.store.memory import MemoryStore
from skep.testing.clock import ManualClock
from tests.support.broker_builders import make_broker
from tests.support.http.access_example import QueueExample, make_queue_example
from tests.support.http.authenticated_app import make_app

OWN, OTHER = "orders", "payments"
ROUTES = all_routes()


@dataclass(frozen=True)
class TwoQueues:
    """Two queues with something to do in each, and the door in front of them."""

    broker: Broker
    store: MemoryStore
    app: App
    own: QueueExample
    other: QueueExample

    def kept(self) -> dict[str, str]:
        """All that is stored. If it is the same later, nothing was written."""
        content = {name: repr(value) for name, value in vars(self.store).items()}
        tables = [table for table in vars(self.store).values() if hasattr(table, "__dict__")]
        return content | {type(table).__name__: repr(vars(table)) for table in tables}

    async def state_of(self, queue: str) -> str:
        """What a queue holds, and where its groups are."""
        groups = await self.broker.groups.list(queue)
        lags = [list(await self.broker.groups.lag(queue, each.group)) for each in groups]
        summary = await self.broker.insight.queues.queue(queue)
        return repr((summary, groups, lags, await self.broker.dead_letters.list(queue)))


async def make_two_queues(broker: Broker, store: MemoryStore, clock: ManualClock) -> TwoQueues:
    own, other = await make_queue_example(broker, OWN), await make_queue_example(broker, OTHER)
    return TwoQueues(broker, store, make_app(broker, clock, routes=ROUTES), own, other)


@asynccontextmanager
async def open_two_queues() -> AsyncIterator[TwoQueues]:
    """A scene of its own, for a test that needs more than one."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    async with make_broker(store) as broker:
        yield await make_two_queues(broker, store, clock)
