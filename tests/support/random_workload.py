"""Random operations of all kinds on some brokers of one store."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import cast

from skep import Broker, Delivery, Draft, Verdict
from skep.errors import SkepError
from skep.model.address import message_id
from skep.model.operation import Status
from skep.testing.clock import ManualClock
from tests.support.broker_builders import moment

QUEUES = ("shop.orders", "shop.mail")
GROUPS = ("billing", "stock")
PARTITIONS = ("a", "b", "c")
STATUSES: tuple[Status, ...] = ("completed", "completed", "failed", "retry", "dead_letter")


class Wanderer:
    """Does one thing after the other, each at one of the brokers. What is refused is no error."""

    def __init__(self, brokers: list[Broker], clock: ManualClock, seed: int) -> None:
        self.brokers = brokers
        self._clock = clock
        self._random = Random(seed)
        self._deliveries: list[Delivery] = []

    async def configure(self) -> None:
        """Create the queues, whose options differ."""
        broker = self.brokers[0]
        await broker.queues.configure(QUEUES[0], namespace="shop", lease_time=10, retry_limit=1)
        await broker.queues.configure(
            QUEUES[1],
            namespace="shop",
            lease_time=5,
            retry_delay=2000,
            delayed_processing=1,
            max_wait_time_seconds=40,
            retention_enabled=True,
            retention_seconds=90,
            completed_retention_seconds=20,
        )

    async def step(self) -> None:
        often: list[Callable[[], Awaitable[object]]] = [self._push, self._pop, self._settle]
        seldom = [self._pass, self._extend, self._seek, self._remove, self._sweep, self._forget]
        with suppress(SkepError):
            await self._random.choice([*often, *often, *often, *seldom])()

    @property
    def _broker(self) -> Broker:
        return self._random.choice(self.brokers)

    def _pick(self, *some: str) -> str:
        return self._random.choice(some)

    async def _push(self) -> None:
        partitions = self._random.choices(PARTITIONS, k=self._random.randint(1, 5))
        await self._broker.push(self._pick(*QUEUES), [Draft(b"1", each) for each in partitions])

    async def _pop(self) -> None:
        anywhere = self._random.random() < 0.3
        delivery = await self._broker.pop(
            None if anywhere else self._pick(*QUEUES),
            namespace="shop" if anywhere else None,
            group=self._pick(*GROUPS),
            batch=self._random.randint(1, 4),
            partitions=self._random.randint(1, 3),
            auto_ack=self._random.random() < 0.2,
            subscription_mode=self._pick("all", "new"),
        )
        if delivery is not None and delivery.lease_id is not None:
            self._deliveries.append(delivery)

    async def _settle(self) -> None:
        if not self._deliveries:
            return
        delivery = self._random.choice(self._deliveries[-4:])
        if self._random.random() < 0.4:
            await self._broker.ack(delivery)
            return
        some = self._random.sample(
            delivery.messages, self._random.randint(1, len(delivery.messages))
        )
        same = self._random.choice(STATUSES)
        verdicts = [
            Verdict(m.partition_number, m.offset, self._random.choice((same, *STATUSES)), "broken")
            for m in some
        ]
        await self._broker.settle(delivery, verdicts)

    async def _extend(self) -> None:
        if self._deliveries:
            delivery = self._random.choice(self._deliveries[-4:])
            await self._broker.extend(delivery, self._random.randint(1, 30))

    async def _pass(self) -> None:
        self._clock.advance(self._random.choice([0.5, 1, 2, 5, 10, 10, 45, 95]))

    async def _seek(self) -> None:
        place = self._pick(*QUEUES), self._pick(*GROUPS)
        if self._random.random() < 0.2:
            await self._broker.groups.restart(*place)
            return
        partition = self._random.choice([None, *PARTITIONS])
        to = self._random.choice(["beginning", "end", 1, moment(self._clock, -5)])
        await self._broker.groups.seek(*place, cast("int", to), partition=partition)

    async def _remove(self) -> None:
        queue, partition = self._pick(*QUEUES), self._pick(*PARTITIONS)
        found = [each for each in await self._broker.queues.partitions(queue) if each.end]
        if self._random.random() < 0.3 or not found:
            await self._broker.queues.clear(queue, partition=partition)
            return
        at = self._random.choice(found)
        address = message_id(at.number, self._random.randrange(at.end))
        if self._random.random() < 0.5:
            await self._broker.messages.give_up(address, group=self._pick(*GROUPS), error="no")
        else:
            await self._broker.messages.delete(address)

    async def _sweep(self) -> None:
        await self._broker.sweep()

    async def _forget(self) -> None:
        queue = self._pick(*QUEUES)
        if self._random.random() < 0.5:
            await self._broker.groups.delete(queue, self._pick(*GROUPS))
        elif self._random.random() < 0.2:
            await self._broker.queues.delete(queue)
            await self.configure()
