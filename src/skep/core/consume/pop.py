"""Popping: find who may serve the request, take what is ready, or wait for it."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime

import msgspec
from msgspec.structs import replace

from skep.core.admin.group import Groups, check_mode
from skep.core.admin.queue import Queues
from skep.core.cluster.peer_sync import PeerSync
from skep.core.consume.delivery import DeliveryBuilder
from skep.core.consume.partition_lease import DeliveryRequest
from skep.core.limits import Limits
from skep.core.state.catalogue import Catalogue
from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.core.state.waiters import ANY_QUEUE, Waiter, WaitKey
from skep.errors import Invalid, QueueNotFound
from skep.model.message import Delivery
from skep.model.name import QUEUE_MODE, SECOND, Instant, check_count, from_datetime
from skep.store.protocol import Store

_LOADING = 5 * SECOND
"""How much longer a pop that finds nothing may take while its queue is being loaded."""


class PopRequest(msgspec.Struct, frozen=True, kw_only=True):
    queue: str | None = None
    group: str = QUEUE_MODE
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None
    batch: int = 1
    partitions: int = 1
    wait: float = 0
    auto_ack: bool = False
    lease_seconds: int | None = None
    subscription_mode: str = "all"
    subscription_from: datetime | None = None
    authorize: Callable[[], Awaitable[None]] | None = None
    principal: str | None = None

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


class Popper:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        following: PeerSync,
        queues: Queues,
        groups: Groups,
        taking: DeliveryBuilder,
    ) -> None:
        self._clock = store.clock
        self._catalogue = catalogue
        self._following = following
        self._queues = queues
        self._groups = groups
        self._taking = taking

    async def pop(self, request: PopRequest) -> Delivery | None:
        sleeper = Waiter()
        try:
            return await self._pop(request, sleeper)
        finally:
            # Woken for one partition, it may have taken another, or nothing at all.
            sleeper.pass_on()

    async def _pop(self, request: PopRequest, sleeper: Waiter) -> Delivery | None:
        until = self._clock.now() + int(request.wait * SECOND)
        while True:
            # What was pushed, deleted or configured before counts, whichever server did it.
            await self._following.catch_up()
            if request.queue is not None and not self._may_exist(request.queue):
                # Whatever will be in the queue comes after the group: for it, all of that is new.
                request = replace(request, subscription_mode="all")
            groups = await self._candidates(request)
            only = self._only(request, groups)
            delivery = await self._take(request, groups, only)
            if delivery is not None:
                return delivery
            if not await self._wait(request, sleeper, groups, only, until):
                return None

    async def _wait(
        self,
        request: PopRequest,
        sleeper: Waiter,
        groups: list[GroupState],
        only: PartitionState | None,
        until: Instant,
    ) -> bool:
        """Wait for a reason to look again; False if there was none in time."""
        waiting = self._catalogue.waiting
        if waiting.closed:
            return False
        if not self._catalogue.is_complete(groups):
            # Something may be ready in partitions that were not looked at yet.
            until += _LOADING
        if self._clock.now() >= until:
            return False
        if not self._has_changed(request, groups):
            sleeper.pass_on()
            await waiting.park(sleeper, _places(request, groups, only), until)
        if not waiting.closed:
            await _authorize(request)
        return not waiting.closed

    def _has_changed(self, request: PopRequest, groups: list[GroupState]) -> bool:
        """Whether groups were found to be gone, or a queue to exist, while they were looked at."""
        if not groups and request.queue in self._catalogue.queues:
            return True
        return any(group.removed for group in groups)

    def _may_exist(self, queue: str) -> bool:
        """Whether a queue is known, or is being deleted, which may fail."""
        return queue in self._catalogue.queues or queue in self._catalogue.deleting

    async def _take(
        self, request: PopRequest, groups: list[GroupState], only: PartitionState | None
    ) -> Delivery | None:
        if request.partition is not None and only is None:
            return None
        return await self._taking.take(
            groups,
            DeliveryRequest(
                batch=request.batch,
                partitions=request.partitions,
                auto_ack=request.auto_ack,
                only=only,
                lease_seconds=request.lease_seconds,
                principal=request.principal,
            ),
        )

    async def _candidates(self, request: PopRequest) -> list[GroupState]:
        """The request's group in each queue that may serve it, the most urgent first."""
        groups = []
        has_waited = False
        for queue in self._matching(request):
            group = self._groups.find(queue, request.group)
            if group is None:
                has_waited = True
                group = await self._contact(queue, request)
            if group is not None:
                groups.append(group)
        if has_waited:
            await _authorize(request)
        return sorted(groups, key=_urgency) if len(groups) > 1 else groups

    async def _contact(self, queue: QueueState, request: PopRequest) -> GroupState | None:
        """The request's group after its first contact; None if the queue was just deleted."""
        with suppress(QueueNotFound):
            return await self._groups.contact(
                queue, request.group, request.subscription_mode, request.subscription_from
            )
        return None

    def _matching(self, request: PopRequest) -> Sequence[QueueState]:
        if request.queue is None:
            return self._queues.matching(request.namespace, request.task)
        queue = self._catalogue.queues.get(request.queue)
        return [queue] if queue else []

    def _only(self, request: PopRequest, groups: list[GroupState]) -> PartitionState | None:
        if request.partition is None or not groups:
            return None
        return groups[0].queue.partitions.get(request.partition)


async def _authorize(request: PopRequest) -> None:
    """Check the caller again after a wait."""
    if request.authorize is not None:
        await request.authorize()


def _urgency(group: GroupState) -> tuple[int, float]:
    oldest = group.ready.oldest_at()
    return -group.queue.config.options.priority, float("inf") if oldest is None else oldest


def _places(
    request: PopRequest, groups: list[GroupState], only: PartitionState | None
) -> list[WaitKey]:
    """Where to wait for something to change."""
    if request.queue is None:
        return [ANY_QUEUE, *((group.queue.config.number, group.name) for group in groups)]
    if not groups:
        return [request.queue]
    number, name = groups[0].queue.config.number, groups[0].name
    if request.partition is None:
        return [(number, name)]
    return [(number, name, only.number) if only else (number, name, request.partition)]
