"""Popping: find who may serve the request, take what is ready, or wait for it."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import msgspec
from msgspec.structs import replace

from skep.core.catalogue import Catalogue
from skep.core.claim import Take
from skep.core.following import Following
from skep.core.groups import Groups, check_mode
from skep.core.limits import Limits
from skep.core.queues import Queues
from skep.core.state import GroupState, PartitionState, QueueState
from skep.core.take import Taking
from skep.core.waiting import ANY_QUEUE, Place, Sleeper
from skep.errors import Invalid, QueueNotFound
from skep.model.message import Delivery
from skep.model.names import SECOND, check_count, from_datetime
from skep.store.protocol import Store


class PopRequest(msgspec.Struct, frozen=True, kw_only=True):
    queue: str | None
    group: str
    partition: str | None
    namespace: str | None
    task: str | None
    batch: int
    partitions: int
    wait: float
    auto_ack: bool
    lease_seconds: int | None
    subscription_mode: str
    subscription_from: datetime | None

    def check(self, limits: Limits) -> None:
        if (self.queue is None) == (self.namespace is None and self.task is None):
            raise Invalid("queue", "name a queue, or a namespace or task instead of it")
        if self.partition is not None and self.queue is None:
            raise Invalid("partition", "needs a queue")
        self._check_numbers(limits)
        if type(self.auto_ack) is not bool:
            raise Invalid("auto_ack", f"must be true or false, not {self.auto_ack!r}")
        check_mode(self.subscription_mode)
        if self.subscription_from is not None:
            from_datetime("subscription_from", self.subscription_from)

    def _check_numbers(self, limits: Limits) -> None:
        check_count("batch", self.batch, least=1, most=limits.pop_messages)
        check_count("partitions", self.partitions, least=1, most=limits.pop_partitions)
        if self.lease_seconds is not None:
            check_count("lease_seconds", self.lease_seconds, least=1, most=limits.lease_seconds)
        if type(self.wait) not in (int, float) or not 0 <= self.wait <= limits.wait_seconds:
            raise Invalid("wait", f"must be 0 to {limits.wait_seconds} seconds, not {self.wait!r}")


class Popping:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        following: Following,
        queues: Queues,
        groups: Groups,
        taking: Taking,
    ) -> None:
        self._clock = store.clock
        self._catalogue = catalogue
        self._following = following
        self._queues = queues
        self._groups = groups
        self._taking = taking

    async def pop(self, request: PopRequest) -> Delivery | None:
        sleeper = Sleeper()
        try:
            return await self._pop(request, sleeper)
        finally:
            # Woken for one partition, it may have taken another, or nothing at all.
            sleeper.pass_on()

    async def _pop(self, request: PopRequest, sleeper: Sleeper) -> Delivery | None:
        until = self._clock.now() + int(request.wait * SECOND)
        while True:
            # What was pushed, deleted or configured before counts, whichever server did it.
            await self._following.catch_up()
            if request.queue is not None and request.queue not in self._catalogue.queues:
                # Whatever will be in the queue comes after the group: for it, all of that is new.
                request = replace(request, subscription_mode="all")
            groups = await self._candidates(request)
            only = self._only(request, groups)
            delivery = None
            if request.partition is None or only is not None:
                delivery = await self._taking.take(
                    groups,
                    Take(
                        batch=request.batch,
                        partitions=request.partitions,
                        auto_ack=request.auto_ack,
                        only=only,
                        lease_seconds=request.lease_seconds,
                    ),
                )
            if delivery is not None or self._catalogue.waiting.closed or self._clock.now() >= until:
                return delivery
            if any(group.removed for group in groups):
                # It was found only now that they are gone: there may be others of their names.
                continue
            sleeper.pass_on()
            await self._catalogue.waiting.park(sleeper, _places(request, groups, only), until)
            if self._catalogue.waiting.closed:
                return None

    async def _candidates(self, request: PopRequest) -> list[GroupState]:
        """The request's group in each queue that may serve it, the most urgent first."""
        groups = []
        for queue in self._matching(request):
            # Unless the queue is deleted at this very moment.
            with suppress(QueueNotFound):
                groups.append(
                    await self._groups.contact(
                        queue, request.group, request.subscription_mode, request.subscription_from
                    )
                )
        return sorted(groups, key=_urgency) if len(groups) > 1 else groups

    def _matching(self, request: PopRequest) -> Sequence[QueueState]:
        if request.queue is None:
            return self._queues.matching(request.namespace, request.task)
        queue = self._catalogue.queues.get(request.queue)
        return [queue] if queue else []

    def _only(self, request: PopRequest, groups: list[GroupState]) -> PartitionState | None:
        if request.partition is None or not groups:
            return None
        return groups[0].queue.partitions.get(request.partition)


def _urgency(group: GroupState) -> tuple[int, float]:
    oldest = group.ready.oldest_at()
    return -group.queue.config.options.priority, float("inf") if oldest is None else oldest


def _places(
    request: PopRequest, groups: list[GroupState], only: PartitionState | None
) -> list[Place]:
    """Where to wait for something to change."""
    if request.queue is None:
        return [ANY_QUEUE, *((group.queue.config.number, group.name) for group in groups)]
    if not groups:
        return [request.queue]
    number, name = groups[0].queue.config.number, groups[0].name
    if request.partition is None:
        return [(number, name)]
    return [(number, name, only.number) if only else (number, name, request.partition)]
