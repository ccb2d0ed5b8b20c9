"""The broker: the public operations on a queue."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from skep.core.consume.pop import Authorize
from skep.core.lifecycle import Lifecycle
from skep.core.limits import Limits
from skep.core.log.encryption import KeyRing
from skep.core.produce.push_batch import PushBatch
from skep.core.transaction.request import key_of
from skep.core.wiring import build_parts
from skep.errors import Invalid
from skep.model.change import IdempotencyKey
from skep.model.message import Delivery, Draft, Message, Receipt
from skep.model.name import (
    QUEUE_MODE,
    LeaseId,
    check_count,
    check_label,
    to_datetime,
)
from skep.model.operation import (
    Operation,
    Push,
    Settlement,
    Transaction,
    Verdict,
    lease_id_of,
    messages_of,
    verdicts_on,
)
from skep.model.pop_request import PopRequest
from skep.store.protocol import Store, StoreStats

FOLLOW_SECONDS = 0.05
"""How often events of other servers are polled: the longest delay of what they pushed."""


class Broker:
    """A queue over a store.

    Usage::

        async with Broker(store) as queue:
            await queue.push("orders", [Draft(b"...", partition="alice")])
            delivery = await queue.pop("orders", group="billing", wait=5)
            if delivery:
                await queue.ack(delivery)

    Everything else is in ``queues``, ``groups``, ``messages``, ``dead_letters``, ``traces``,
    ``pipelines``, ``maintenance``, ``journal``, ``reader_groups``, ``sink``, ``stream_queries``,
    ``held_messages`` and ``insight``.
    """

    def __init__(
        self,
        store: Store,
        *,
        keys: KeyRing | None = None,
        limits: Limits | None = None,
        sweep_interval: float | None = 5.0,
        follow_interval: float | None = FOLLOW_SECONDS,
        random: Random | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self._store = store
        parts = self._parts = build_parts(store, keys or KeyRing(), self.limits, random or Random())
        self._lifecycle = Lifecycle(
            store, parts, sweep_interval=sweep_interval, follow_interval=follow_interval
        )
        self.queues = parts.queues
        self.groups = parts.groups
        self.messages = parts.messages
        self.dead_letters = parts.dead_letters
        self.traces = parts.traces
        self.pipelines = parts.pipelines
        self.maintenance = parts.maintenance
        self.held_messages = parts.held_messages
        self.stream_queries = parts.stream_queries
        self.journal = parts.journal
        self.reader_groups = parts.reader_groups
        self.sink = parts.sink
        self.insight = parts.insight

    # Lifetime.

    async def __aenter__(self) -> Self:
        await self._lifecycle.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def loaded(self) -> bool:
        """Whether all partitions are known.

        Those of large queues are loaded in the background after the start. Requests that concern
        all of them wait for it; pushes and pops do not.
        """
        return self._parts.loader.loaded

    def drain(self) -> None:
        """Answer every long poll now and from now on: the broker will be closed soon."""
        self._parts.waiters.close()

    async def close(self) -> None:
        """Accept no requests, answer long polls, finish what is in progress, close the store."""
        await self._lifecycle.stop()

    # Messages.

    async def push(
        self, queue: str, drafts: Sequence[Draft], *, producer: str | None = None
    ) -> Sequence[Receipt]:
        """Append drafts to their partitions, all of them or none; durable on return.

        The queue and the partitions are made if there are none. A draft whose transaction
        id is known in its partition is not stored again: its receipt names the first one.
        """
        self._check_open()
        batch = PushBatch(queue, drafts, self.limits)
        applied = await self._parts.pusher.push(batch, check_label("producer", producer))
        return batch.receipts(applied.appended)

    async def pop(
        self,
        queue: str | None = None,
        *,
        group: str = QUEUE_MODE,
        partition: str | None = None,
        namespace: str | None = None,
        task: str | None = None,
        batch: int = 1,
        partitions: int = 1,
        wait: float = 0,
        auto_ack: bool = False,
        lease_seconds: int | None = None,
        subscription_mode: str = "all",
        subscription_from: datetime | None = None,
        authorize: Authorize | None = None,
        principal: str | None = None,
    ) -> Delivery | None:
        """Lease the next messages for a group; None if there are none within ``wait`` seconds.

        From one queue, from one partition of it, or from all queues with a ``namespace`` or
        ``task``, the highest priority first. ``batch`` bounds the messages, ``partitions``
        the partitions they come from. ``auto_ack`` acknowledges before delivering: what the
        consumer then loses is lost. The subscription matters at the group's first contact
        with a queue only: ``all``, ``new``, or from an instant. ``authorize`` is called after
        each wait, before anything is leased; what it raises ends the pop.
        The lease id can be recognised as one of ``principal``, if it is given.
        """
        self._check_open()
        request = PopRequest(
            queue=queue,
            partition=partition,
            namespace=namespace,
            task=task,
            group=group,
            batch=batch,
            partitions=partitions,
            wait=wait,
            auto_ack=auto_ack,
            lease_seconds=lease_seconds,
            subscription_mode=subscription_mode,
            subscription_from=subscription_from,
        ).checked()
        self.limits.check_pop(request)
        return await self._parts.popper.pop(request, authorize=authorize, principal=principal)

    async def ack(
        self, lease: Delivery | str, messages: Iterable[Message] | None = None
    ) -> Settlement:
        """Acknowledge messages of a delivery; all of them if none are named."""
        if messages is None:
            return await self._settle(lease_id_of(lease), None)
        return await self.settle(lease, verdicts_on(messages, "completed"))

    async def fail(
        self,
        lease: Delivery | str,
        messages: Iterable[Message] | None = None,
        *,
        error: str = "",
    ) -> Settlement:
        """Report messages of a delivery as failed; all of them if none are named.

        If all that was delivered of a partition fails it is redelivered after the queue's
        ``retry_delay``, up to ``retry_limit`` times. If only some do, these become dead letters.
        """
        return await self.settle(lease, verdicts_on(messages_of(lease, messages), "failed", error))

    async def settle(self, lease: Delivery | str, verdicts: Sequence[Verdict]) -> Settlement:
        """Report an outcome for each message. Raises ``LeaseLost`` if the lease has ended."""
        return await self._settle(lease_id_of(lease), verdicts)

    async def extend(self, lease: Delivery | str, seconds: int) -> datetime:
        """Keep a lease for at least ``seconds`` from now; return when it ends."""
        self._check_open()
        lease_id = lease_id_of(lease)
        check_count("seconds", seconds, least=1, most=self.limits.lease_seconds)
        return to_datetime(await self._parts.settler.extend(lease_id, seconds))

    async def transact(
        self,
        operations: Sequence[Operation],
        *,
        required_leases: Sequence[str] = (),
        idempotency_key: str | IdempotencyKey | None = None,
        producer: str | None = None,
    ) -> Transaction:
        """Do several things together or not at all.

        Every lease named must be alive when it is committed. With an ``idempotency_key`` a
        repetition changes nothing and gets the first answer, for a day. A key that is a string
        stands for these operations; an ``IdempotencyKey`` has a fingerprint of its own.
        """
        self._check_open()
        key = idempotency_key
        if key is not None and not isinstance(key, IdempotencyKey):
            key = key_of(key, operations, required_leases)
        return await self._parts.transactor.run(
            operations, required_leases=required_leases, key=key, producer=producer
        )

    async def find_transaction(
        self, key: IdempotencyKey, pushes: Sequence[Push]
    ) -> Transaction | None:
        """The first answer to a transaction with these pushes, if its key was used before."""
        self._check_open()
        return await self._parts.transactor.find(key, pushes)

    # The whole.

    async def sweep(self) -> int:
        """Remove what is past its retention or waited too long, now; returns how many.

        What deleted queues left behind goes, too.
        """
        self._check_open()
        await self._parts.remover.run_to_completion()
        return await self._parts.sweeper.sweep()

    async def backup(self, path: str | Path) -> None:
        """Write a copy of the store to ``path``, which must not exist; the broker stays in use."""
        self._check_open()
        if not isinstance(path, str | Path) or not str(path):
            raise Invalid("path", "must name a place that does not exist yet")
        await self._store.backup(Path(path))

    async def catch_up(self) -> None:
        """Apply everything that other servers committed before the call."""
        await self._parts.peer_sync.complete()

    async def stats(self) -> StoreStats:
        """What the store says about itself."""
        self._check_open()
        return await self._store.stats()

    async def _settle(self, lease_id: LeaseId, verdicts: Sequence[Verdict] | None) -> Settlement:
        self._check_open()
        return await self._parts.settler.settle(lease_id, verdicts)

    def _check_open(self) -> None:
        self._parts.registry.check_open()
