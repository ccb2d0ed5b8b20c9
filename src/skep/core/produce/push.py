"""Push: drafts become appends, appends become receipts."""

from collections.abc import Awaitable

from skep.core.aio import Backoff
from skep.core.cluster.maintenance_mode import NORMAL_PUSH, MaintenanceMode
from skep.core.log.committer import Committer
from skep.core.produce.append_builder import AppendBuilder
from skep.core.produce.push_batch import PushBatch
from skep.core.produce.push_preparation import PushPreparer
from skep.core.state.queue_state import QueueState
from skep.core.state.registry import Registry
from skep.model.change import Applied, Change, EntryVersion, Gone, Outcome, QueueVersion, Stale


class Pusher:
    """Appends batches, one change each."""

    def __init__(
        self,
        registry: Registry,
        committer: Committer,
        mode: MaintenanceMode,
        preparer: PushPreparer,
        append_builder: AppendBuilder,
    ) -> None:
        self._registry = registry
        self._committer = committer
        self._mode = mode
        self._preparer = preparer
        self._append_builder = append_builder

    async def push(self, batch: PushBatch, producer: str | None) -> Applied:
        """Append a batch, again if what it was decided on has changed."""
        backoff = None
        while True:
            if self._mode.buffers:
                await self._mode.check_normal()
            outcome = await self.attempt(batch, producer)
            if isinstance(outcome, Applied):
                return outcome
            backoff = backoff or Backoff(f"queue {batch.queue!r}")
            await backoff.pause()

    def attempt(
        self,
        batch: PushBatch,
        producer: str | None,
        *,
        outbox: tuple[int, ...] = (),
        based_on: tuple[EntryVersion, ...] = NORMAL_PUSH,
        queues: tuple[QueueVersion, ...] = (),
    ) -> Awaitable[Outcome]:
        """Append a batch, if what it is decided on still holds when it is committed."""
        queue = self._registry.queues.get(batch.queue)
        if queue is None or not _is_ready(queue, batch):
            return self._prepare_and_submit(batch, producer, outbox, based_on, queues)
        change = Change(
            appends=self._append_builder.build(queue, batch, producer),
            outbox=outbox,
            queues=queue.versions + queues,
            based_on=based_on,
        )
        return self._committer.submit(change, weight=batch.weight)

    async def _prepare_and_submit(
        self,
        batch: PushBatch,
        producer: str | None,
        outbox: tuple[int, ...],
        based_on: tuple[EntryVersion, ...],
        queues: tuple[QueueVersion, ...],
    ) -> Outcome:
        self._committer.check(batch.weight)
        await self._preparer.look_before_creating([batch])
        if based_on == NORMAL_PUSH and self._mode.buffers:
            return Stale()
        await self._preparer.check(batch)
        prepared = await self._preparer.prepare(batch, producer)
        if prepared is None:
            return Gone()
        change = Change(
            appends=prepared.appends,
            outbox=outbox,
            queues=prepared.queues + queues,
            based_on=based_on,
            capacity=prepared.capacity,
        )
        return await self._committer.submit(change, weight=batch.weight)


def _is_ready(queue: QueueState, batch: PushBatch) -> bool:
    """Whether nothing has to be created, counted or encrypted for a batch: mostly so."""
    options = queue.config.options
    if options.max_size or options.encryption_enabled:
        return False
    return all(map(queue.partitions.__contains__, batch.by_partition))
