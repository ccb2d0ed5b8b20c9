"""Maintenance: pushes are buffered instead of delivered, and pops return nothing.

Buffered messages are in a queue like any other, so they are as durable; they leave that queue in
the change in which they enter their own, so nothing is lost or duplicated, whenever a process ends.

Order is kept, with any number of servers. Pushes are buffered until everything before them was
delivered: ending the maintenance only starts the delivery, and normal operation begins with a
commit that finds the buffer empty.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextvars import Context

from skep.core.admin.buffer_delivery import BufferDelivery
from skep.core.admin.push_buffer import BUFFER, PushBuffer
from skep.core.aio import run_to_completion
from skep.core.cluster.maintenance_mode import POPPING, PUSHING, SPACE, MaintenanceMode, PushMode
from skep.core.cluster.peer_sync import PeerSync
from skep.core.log.committer import Committer
from skep.core.produce.capacity import FillLevel
from skep.core.state.catalogue import Catalogue
from skep.errors import SkepError
from skep.model.change import Applied, Capacity, Change, EntryUpdate
from skep.model.message import Draft

_RETRY_SECONDS = 1.0
_POLL_SECONDS = 0.01
_log = logging.getLogger("skep.broker")


class Maintenance:
    def __init__(
        self,
        catalogue: Catalogue,
        peer_sync: PeerSync,
        committer: Committer,
        mode: MaintenanceMode,
        level: FillLevel,
        push_buffer: PushBuffer,
        delivery: BufferDelivery,
    ) -> None:
        self._catalogue = catalogue
        self._peer_sync = peer_sync
        self._committer = committer
        self._mode = mode
        self._level = level
        self._push_buffer = push_buffer
        self._delivery = delivery
        self._draining: asyncio.Task[None] | None = None
        peer_sync.when_changed(SPACE, self._reload)

    @property
    def pushing(self) -> bool:
        """Whether pushing is in maintenance, so that nothing buffered is delivered."""
        return self._mode.push is PushMode.BUFFERING

    @property
    def popping(self) -> bool:
        """Whether popping is in maintenance, so that pops return nothing."""
        return self._mode.pops_paused

    @property
    def buffers(self) -> bool:
        """Whether pushes are buffered now."""
        return self._mode.buffers

    async def check_normal(self) -> None:
        """Raise ``InMaintenance`` while pushes are buffered."""
        await self._mode.check_normal()

    @property
    def buffered(self) -> int:
        """How many messages are in the buffer."""
        return self._push_buffer.messages

    async def load(self) -> None:
        await self._mode.load()
        if not self._mode.buffers and self.buffered:
            # Left by a version that did not store the delivery as a mode of its own.
            await self._put(PUSHING, PushMode.DRAINING.value)
        self._start_draining()

    async def _reload(self) -> None:
        """Another server changed the mode. Nothing is committed here: commits wait for events."""
        await self._mode.load()
        self._start_draining()

    def _start_draining(self) -> None:
        if self._mode.push is PushMode.DRAINING and self._draining is None:
            # In an empty context, so that the quota of the current caller does not apply.
            self._draining = asyncio.create_task(self._drain(), context=Context())

    async def close(self) -> None:
        if self._draining:
            self._draining.cancel()
            await asyncio.wait([self._draining])

    async def set_pushing(self, on: bool) -> None:
        """Start or stop buffering pushes. Stopping delivers everything that was buffered."""
        await self._peer_sync.complete()
        if on:
            await self._put(PUSHING, PushMode.BUFFERING.value)
        elif self._mode.buffers:
            await self._put(PUSHING, PushMode.DRAINING.value)
            if await self._finish():
                return
        self._start_draining()

    async def set_popping(self, on: bool) -> None:
        """Pause or resume pops."""
        await self._put(POPPING, b"on" if on else None)

    async def buffer(
        self, drafts: Mapping[str, Sequence[Draft]], producer: str | None
    ) -> dict[str, list[Draft]] | None:
        """Buffer drafts, by queue; see ``PushBuffer.push``."""
        return await self._push_buffer.push(drafts, producer)

    async def _put(self, key: str, value: bytes | None) -> None:
        await run_to_completion(self._put_whole(key, value))

    async def _put_whole(self, key: str, value: bytes | None) -> None:
        update = EntryUpdate(space=SPACE, key=key, value=value)
        await self._committer.submit(Change(entries=(update,)))
        await self._mode.load()

    async def _drain(self) -> None:
        """Deliver buffered messages until a commit finds the buffer empty."""
        try:
            while self._mode.push is PushMode.DRAINING:
                try:
                    if not await self._delivery.deliver() and not await self._finish():
                        # A push is in flight, or another server holds the lease for a while.
                        await asyncio.sleep(_POLL_SECONDS)
                except SkepError as error:
                    _log.warning("could not deliver buffered messages, retrying: error=%s", error)
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._draining = None

    async def _finish(self) -> bool:
        """Return to normal operation if the buffer is empty; False if it may not be."""
        (basis,) = self._mode.basis
        queue = await self._catalogue.ensure_queue(BUFFER)
        pushed = await self._level.pushed(queue)
        if queue.depth or self._mode.push is not PushMode.DRAINING:
            return self._mode.push is not PushMode.DRAINING
        outcome = await self._committer.submit(
            Change(
                entries=(
                    EntryUpdate(space=SPACE, key=PUSHING, value=None, expected=basis.version),
                ),
                capacity=(Capacity(queue.config.number, 0, pushed),),
            )
        )
        await self._mode.load()
        return isinstance(outcome, Applied)
