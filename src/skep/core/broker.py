"""The broker: what the doors call."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from skep.core.admin.dead_letter import DeadLetters
from skep.core.admin.deletion import Remover
from skep.core.admin.give_up import GiveUpByHand
from skep.core.admin.group import Groups
from skep.core.admin.maintenance import Maintenance
from skep.core.admin.message import Messages
from skep.core.admin.pipeline_run import Pipelines
from skep.core.admin.queue import Queues
from skep.core.admin.trace import Traces
from skep.core.cluster.maintenance_mode import MaintenanceMode
from skep.core.cluster.peer_sync import PeerSync
from skep.core.consume.delivery import DeliveryBuilder
from skep.core.consume.eviction import Evictor
from skep.core.consume.held_messages import HeldMessages
from skep.core.consume.partition_lease import PartitionLeaser
from skep.core.consume.pop import Popper, PopRequest
from skep.core.consume.settlement import Settler
from skep.core.insight.insight import Insight
from skep.core.journal.journal import Journal
from skep.core.journal.reader_group import ReaderGroups
from skep.core.journal.scan import JournalScan
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.log.encryption import KeyRing
from skep.core.log.segment_reader import SegmentReader
from skep.core.metrics.commit_meter import CommitMeter
from skep.core.metrics.latency_history import LOOK_SECONDS, LatencyHistory
from skep.core.produce.capacity import FillLevel
from skep.core.produce.outbox import Outbox
from skep.core.produce.push import PushBatch, Pusher
from skep.core.sink.publisher import Publisher
from skep.core.sink.sink import Sink
from skep.core.state.catalogue import Catalogue
from skep.core.state.totals_updater import COUNT_SECONDS, TotalsUpdater
from skep.core.sweeper import Sweeper
from skep.core.transaction.stream_query import StreamQueries
from skep.core.transaction.transaction import Transactor, key_of
from skep.errors import Invalid
from skep.model.change import IdempotencyKey
from skep.model.message import Delivery, Draft, Message, Receipt
from skep.model.name import (
    QUEUE_MODE,
    LeaseId,
    check_count,
    check_label,
    check_name,
    check_queue_name,
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
from skep.store.protocol import Store, StoreStats

FOLLOW_SECONDS = 0.05
"""How often other servers are asked what they did: nobody waits longer for what they pushed."""


class Broker:
    """A queue over a store.

    Usage::

        async with Broker(store) as queue:
            await queue.push("orders", [Draft(b"...", partition="alice")])
            delivery = await queue.pop("orders", group="billing", wait=5)
            if delivery:
                await queue.ack(delivery)

    What is not about a single message is in ``queues``, ``groups``, ``messages``, ``journal``,
    ``journal_reading``, ``readers``, ``staging``, ``dead_letters``, ``traces``, ``streams``,
    ``pipelines``, ``maintenance``, ``addresses``, ``giving_up`` and ``insight``.
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
        keys, limits = keys or KeyRing(), limits or Limits()
        self._store = store
        self.limits = limits
        self._sweep_interval = sweep_interval
        self._follow_interval = follow_interval
        catalogue = self._catalogue = Catalogue(store, cache_bytes=limits.cache_bytes)
        meter = CommitMeter(store.clock, catalogue)
        following = self._following = PeerSync(store, catalogue, meter.forget_letters)
        committer = self._committer = Committer(
            store, meter.follow, following.explain, capacity=limits.pending_bytes
        )
        reading = SegmentReader(store, catalogue, keys)
        mode = MaintenanceMode(store, following)
        level = FillLevel(store, following)
        evicting = Evictor(store, catalogue, committer, reading)
        claiming = PartitionLeaser(store.clock, catalogue, reading)
        self._pushing = Pusher(store, catalogue, following, committer, mode, level, keys)
        self._settling = Settler(store, catalogue, random or Random())
        self._transacting = Transactor(
            store, committer, following, self._pushing, self._settling, mode, limits
        )
        self.queues = Queues(store, catalogue, following, committer)
        self._counting = TotalsUpdater(store.clock, catalogue)
        self.groups = Groups(store, catalogue, committer, following, self._counting)
        taking = DeliveryBuilder(
            store.clock, catalogue, committer, claiming, evicting, mode, limits
        )
        self._popping = Popper(store, catalogue, following, self.queues, self.groups, taking)
        self.addresses = HeldMessages(store, catalogue, following, reading)
        self.streams = StreamQueries(store, committer, self._transacting, self.addresses)
        self.messages = Messages(store, catalogue, following, reading, limits)
        self.journal = Journal(store, catalogue, following)
        self.journal_reading = JournalScan(store, catalogue, following, reading)
        self.readers = ReaderGroups(store, self.journal, committer)
        self.pipelines = Pipelines(store, committer)
        self.dead_letters = DeadLetters(
            store, catalogue, following, committer, reading, mode, keys, limits
        )
        self.traces = Traces(store, catalogue, following, committer, self.messages, reading, limits)
        self._latencies = LatencyHistory(store, committer, meter.latencies)
        self.insight = Insight(
            store,
            catalogue,
            following,
            committer,
            self._counting,
            meter,
            reading,
            self.dead_letters,
            self.traces,
            self.readers,
            self._latencies,
            limits,
        )
        self.giving_up = GiveUpByHand(store.clock, catalogue, committer, self.insight.observing)
        self.maintenance = Maintenance(
            catalogue,
            following,
            committer,
            mode,
            level,
            self._pushing,
            self._transacting,
            self._popping,
            self,
            limits,
        )
        self._outbox = Outbox(store, self._pushing, mode, limits)
        self.staging = Sink(
            store,
            catalogue,
            following,
            committer,
            mode,
            Publisher(store, catalogue, following, committer, level, keys, limits),
            limits,
        )
        self._sweeper = Sweeper(
            store,
            catalogue,
            following,
            self.queues,
            evicting,
            self.staging,
            self.readers,
            self._latencies,
        )
        self._remover = Remover(store)
        self._closing: asyncio.Task[None] | None = None

    # Lifetime.

    async def __aenter__(self) -> Self:
        try:
            await self._following.begin()
            await self._catalogue.load()
            await self.maintenance.load()
        except BaseException:
            await self.close()
            raise
        if self._follow_interval:
            self._following.start(self._follow_interval)
            self._outbox.start()
        if self._sweep_interval:
            self._sweeper.start(self._sweep_interval)
            self._latencies.start(LOOK_SECONDS)
            self._counting.start(COUNT_SECONDS)
            self._remover.start()
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

        Those of large queues are loaded in the background after the start. What concerns all of
        them waits for it; pushes and pops do not.
        """
        return self._catalogue.loaded

    def drain(self) -> None:
        """Answer every long poll now, those to come too: the broker will be closed soon."""
        self._catalogue.waiting.close()

    async def close(self) -> None:
        """Take nothing new, answer long polls, finish what is under way, close the store.

        Once begun it goes on to its end, whoever waits for it.
        """
        self._catalogue.close()
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self._outbox.stop()
            await self._remover.stop()
            await self._sweeper.stop()
            await self._counting.stop()
            await self._latencies.stop()
            await self.staging.stop()
            await self._following.stop()
            await self._catalogue.stop()
            await self.maintenance.close()
            # Pops that were woken give their answer before the store goes away.
            await asyncio.sleep(0)
            await self._committer.close()
            await self._latencies.keep_rest()
        finally:
            self._catalogue.release()
            await self._store.close()

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
        applied = await self._pushing.push(batch, check_label("producer", producer))
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
        authorize: Callable[[], Awaitable[None]] | None = None,
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
            queue=None if queue is None else check_queue_name("queue", queue),
            partition=check_label("partition", partition),
            namespace=check_label("namespace", namespace),
            task=check_label("task", task),
            group=check_name("group", group),
            batch=batch,
            partitions=partitions,
            wait=wait,
            auto_ack=auto_ack,
            lease_seconds=lease_seconds,
            subscription_mode=subscription_mode,
            subscription_from=subscription_from,
            authorize=authorize,
            principal=principal,
        )
        request.check(self.limits)
        return await self._popping.pop(request)

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

        If all that was delivered of a partition fails it comes again after the queue's
        ``retry_delay``, up to ``retry_limit`` times. If only some do, these become dead letters.
        """
        return await self.settle(lease, verdicts_on(messages_of(lease, messages), "failed", error))

    async def settle(self, lease: Delivery | str, verdicts: Sequence[Verdict]) -> Settlement:
        """Say of each message what became of it. A late call raises ``LeaseLost``."""
        return await self._settle(lease_id_of(lease), verdicts)

    async def extend(self, lease: Delivery | str, seconds: int) -> datetime:
        """Keep a lease for at least ``seconds`` from now; return when it ends."""
        self._check_open()
        lease_id = lease_id_of(lease)
        check_count("seconds", seconds, least=1, most=self.limits.lease_seconds)
        until = await self._transacting.decide(
            lease_id, lambda plan: self._settling.extend(plan, lease_id, seconds)
        )
        return to_datetime(until)

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
        return await self._transacting.run(
            operations, required_leases=required_leases, key=key, producer=producer
        )

    async def find_transaction(
        self, key: IdempotencyKey, pushes: Sequence[Push]
    ) -> Transaction | None:
        """The first answer to a transaction with these pushes, if its key was used before."""
        self._check_open()
        return await self._transacting.find(key, pushes)

    # The whole.

    async def sweep(self) -> int:
        """Remove what is past its retention or waited too long, now; returns how many.

        What deleted queues left behind goes, too.
        """
        self._check_open()
        await self._remover.run_to_completion()
        return await self._sweeper.sweep()

    async def backup(self, path: str | Path) -> None:
        """Write a copy of the store to ``path``, which must not exist, while work goes on."""
        self._check_open()
        if not isinstance(path, str | Path) or not str(path):
            raise Invalid("path", "must name a place that does not exist yet")
        await self._store.backup(Path(path))

    async def catch_up(self) -> None:
        """Apply everything that other servers committed before the call."""
        await self._following.complete()

    async def stats(self) -> StoreStats:
        """What the store says about itself."""
        self._check_open()
        return await self._store.stats()

    async def _settle(self, lease_id: LeaseId, verdicts: Sequence[Verdict] | None) -> Settlement:
        self._check_open()
        return await self._transacting.decide(
            lease_id, lambda plan: self._settling.ack(plan, lease_id, verdicts)
        )

    def _check_open(self) -> None:
        self._catalogue.check_open()
