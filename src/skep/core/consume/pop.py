"""Pop: find the groups that may serve a request, lease what is ready, or wait for it."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from msgspec.structs import replace

from skep.core.cluster.peer_sync import PeerSync
from skep.core.consume.delivery import DeliveryBuilder
from skep.core.consume.partition_lease import DeliveryRequest
from skep.core.consume.subscription import Subscriptions
from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.core.state.registry import Registry
from skep.core.state.state_loader import StateLoader
from skep.core.state.waiters import ANY_QUEUE, Waiter, Waiters, WaitKey
from skep.errors import QueueNotFound
from skep.model.message import Delivery
from skep.model.name import SECOND, Instant
from skep.model.pop_request import PopRequest
from skep.store.protocol import ClockStore

_LOADING = 5 * SECOND
"""How much longer a pop that finds nothing may take while its queue is being loaded."""

Authorize: TypeAlias = Callable[[], Awaitable[None]]
"""Raises if the caller may no longer pop."""


async def _always() -> None:
    """Authorize every caller."""


class Popper:
    def __init__(
        self,
        store: ClockStore,
        registry: Registry,
        loader: StateLoader,
        waiters: Waiters,
        peer_sync: PeerSync,
        subscriptions: Subscriptions,
        delivery_builder: DeliveryBuilder,
    ) -> None:
        self._clock = store.clock
        self._registry = registry
        self._loader = loader
        self._waiters = waiters
        self._peer_sync = peer_sync
        self._subscriptions = subscriptions
        self._delivery_builder = delivery_builder

    async def pop(
        self,
        request: PopRequest,
        *,
        authorize: Authorize | None = None,
        principal: str | None = None,
    ) -> Delivery | None:
        """``authorize`` is called after each wait, before anything is leased."""
        waiter = Waiter()
        try:
            return await self._pop(request, waiter, authorize or _always, principal)
        finally:
            # Woken for one partition, it may have leased another, or none.
            waiter.pass_on()

    async def _pop(
        self, request: PopRequest, waiter: Waiter, authorize: Authorize, principal: str | None
    ) -> Delivery | None:
        until = self._clock.now() + int(request.wait * SECOND)
        while True:
            # What was pushed, deleted or configured before counts, whichever server did it.
            await self._peer_sync.catch_up()
            if request.queue is not None and not self._may_exist(request.queue):
                # Whatever will be in the queue comes after the group: for it, all of that is new.
                request = replace(request, subscription_mode="all")
            groups = await self._candidates(request, authorize)
            only = self._only(request, groups)
            delivery = await self._deliver(request, groups, only, principal)
            if delivery is not None:
                return delivery
            if not await self._wait(request, waiter, groups, only, until):
                return None
            await authorize()

    async def _wait(
        self,
        request: PopRequest,
        waiter: Waiter,
        groups: list[GroupState],
        only: PartitionState | None,
        until: Instant,
    ) -> bool:
        """Wait for a reason to look again; False if there was none in time."""
        waiters = self._waiters
        if waiters.closed:
            return False
        if not self._loader.is_complete(groups):
            # Something may be ready in partitions that were not looked at yet.
            until += _LOADING
        if self._clock.now() >= until:
            return False
        if not self._has_changed(request, groups):
            waiter.pass_on()
            await waiters.wait(waiter, _wait_keys(request, groups, only), until)
        return not waiters.closed

    def _has_changed(self, request: PopRequest, groups: list[GroupState]) -> bool:
        """Whether a group was removed, or the queue created, while they were looked at."""
        if not groups and request.queue in self._registry.queues:
            return True
        return any(group.removed for group in groups)

    def _may_exist(self, queue: str) -> bool:
        """Whether a queue is known, or is being deleted, which may fail."""
        return queue in self._registry.queues or queue in self._registry.deleting

    async def _deliver(
        self,
        request: PopRequest,
        groups: list[GroupState],
        only: PartitionState | None,
        principal: str | None,
    ) -> Delivery | None:
        if request.partition is not None and only is None:
            return None
        return await self._delivery_builder.build(
            groups,
            DeliveryRequest(
                batch=request.batch,
                partitions=request.partitions,
                auto_ack=request.auto_ack,
                only=only,
                lease_seconds=request.lease_seconds,
                principal=principal,
            ),
        )

    async def _candidates(self, request: PopRequest, authorize: Authorize) -> list[GroupState]:
        """The request's group in each queue that may serve it, the most urgent first."""
        groups = []
        has_waited = False
        for queue in self._matching(request):
            group = self._subscriptions.find(queue, request.group)
            if group is None:
                has_waited = True
                group = await self._contact(queue, request)
            if group is not None:
                groups.append(group)
        if has_waited:
            await authorize()
        return sorted(groups, key=_urgency) if len(groups) > 1 else groups

    async def _contact(self, queue: QueueState, request: PopRequest) -> GroupState | None:
        """The request's group after its first contact; None if the queue was just deleted."""
        with suppress(QueueNotFound):
            return await self._subscriptions.contact(
                queue, request.group, request.subscription_mode, request.subscription_from
            )
        return None

    def _matching(self, request: PopRequest) -> Sequence[QueueState]:
        if request.queue is None:
            return self._registry.matching(request.namespace, request.task)
        queue = self._registry.queues.get(request.queue)
        return [queue] if queue else []

    def _only(self, request: PopRequest, groups: list[GroupState]) -> PartitionState | None:
        if request.partition is None or not groups:
            return None
        return groups[0].queue.partitions.get(request.partition)


def _urgency(group: GroupState) -> tuple[int, float]:
    oldest = group.ready.oldest_at()
    return -group.queue.config.options.priority, float("inf") if oldest is None else oldest


def _wait_keys(
    request: PopRequest, groups: list[GroupState], only: PartitionState | None
) -> list[WaitKey]:
    """What to wait for: a change in any queue, in a group, or in one partition."""
    if request.queue is None:
        return [ANY_QUEUE, *((group.queue.config.number, group.name) for group in groups)]
    if not groups:
        return [request.queue]
    number, name = groups[0].queue.config.number, groups[0].name
    if request.partition is None:
        return [(number, name)]
    return [(number, name, only.number) if only else (number, name, request.partition)]
