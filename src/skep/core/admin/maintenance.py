"""Maintenance: pushes are buffered instead of delivered, pops find nothing.

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
from itertools import groupby
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from skep.core.aio import Backoff, run_to_completion
from skep.core.cluster.maintenance_mode import POPPING, PUSHING, SPACE, MaintenanceMode, PushMode
from skep.core.cluster.peer_sync import PeerSync
from skep.core.consume.pop import Popper
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.produce.capacity import FillLevel
from skep.core.produce.push import Pusher
from skep.core.produce.push_batch import PushBatch
from skep.core.state.catalogue import Catalogue
from skep.core.state.quota import Quotas
from skep.core.state.registry import Registry
from skep.core.transaction.transaction import Transactor
from skep.errors import Invalid, SkepError, Unavailable
from skep.model.change import Applied, Capacity, Change, EntryUpdate, QueueVersion
from skep.model.message import Delivery, Draft, Message
from skep.model.name import RESERVED
from skep.model.operation import Ack, Operation, Push, Verdict, lease_id_of
from skep.model.pop_request import PopRequest

BUFFER = f"{RESERVED}aside"
_BATCH = 500
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 0.01
_LEASE_SECONDS = 10
_log = logging.getLogger("skep.maintenance")


_POP = PopRequest(queue=BUFFER, batch=_BATCH, lease_seconds=_LEASE_SECONDS)


class _Buffered(msgspec.Struct, frozen=True, array_like=True):
    """A draft in the buffer."""

    queue: str
    draft: Draft
    producer: str | None


class Maintenance:
    def __init__(
        self,
        catalogue: Catalogue,
        registry: Registry,
        quotas: Quotas,
        peer_sync: PeerSync,
        committer: Committer,
        mode: MaintenanceMode,
        level: FillLevel,
        pusher: Pusher,
        transactor: Transactor,
        popper: Popper,
        limits: Limits,
    ) -> None:
        self._catalogue = catalogue
        self._registry = registry
        self._quotas = quotas
        self._peer_sync = peer_sync
        self._committer = committer
        self._mode = mode
        self._level = level
        self._pusher = pusher
        self._transactor = transactor
        self._popper = popper
        self._limits = limits
        self._draining: asyncio.Task[None] | None = None
        peer_sync.when_changed(SPACE, self._reload)

    @property
    def pushing(self) -> bool:
        """Whether pushing is in maintenance, so that nothing buffered is delivered."""
        return self._mode.push is PushMode.BUFFERING

    @property
    def popping(self) -> bool:
        return self._mode.pops_paused

    @property
    def buffers(self) -> bool:
        """Whether what is pushed now is buffered."""
        return self._mode.buffers

    async def check_normal(self) -> None:
        """Raise ``InMaintenance`` while pushes are buffered."""
        await self._mode.check_normal()

    @property
    def buffered(self) -> int:
        """How many messages are in the buffer."""
        state = self._registry.queues.get(BUFFER)
        return state.depth if state else 0

    async def load(self) -> None:
        await self._mode.load()
        if not self._mode.buffers and self.buffered:
            # A version that did not know the delivery as a mode of its own left it.
            await self._put(PUSHING, PushMode.DRAINING.value)
        self._start_draining()

    async def _reload(self) -> None:
        """Another server changed the mode. Nothing is committed here: commits wait for events."""
        await self._mode.load()
        self._start_draining()

    def _start_draining(self) -> None:
        if self._mode.push is PushMode.DRAINING and self._draining is None:
            # Not for who ended the maintenance: what he may create does not matter here.
            self._draining = asyncio.create_task(self._drain(), context=Context())

    async def close(self) -> None:
        if self._draining:
            self._draining.cancel()
            await asyncio.wait([self._draining])

    async def set_pushing(self, on: bool) -> None:
        """Begin or end to buffer pushes. At the end all of them are delivered."""
        await self._peer_sync.complete()
        if on:
            await self._put(PUSHING, PushMode.BUFFERING.value)
        elif self._mode.buffers:
            await self._put(PUSHING, PushMode.DRAINING.value)
            if await self._finish():
                return
        self._start_draining()

    async def set_popping(self, on: bool) -> None:
        await self._put(POPPING, b"on" if on else None)

    async def buffer(
        self, drafts: Mapping[str, Sequence[Draft]], producer: str | None
    ) -> dict[str, list[Draft]] | None:
        """Keep drafts, by queue, for later: durably, all or none.

        Returns them with the transaction ids they will have; None, and nothing was done, if
        pushes are not buffered any more. What a push would reject is rejected now, while
        the producer can be told.
        """
        named = {queue: list(map(_with_id, some)) for queue, some in drafts.items()}
        rows = [
            Draft(msgspec.msgpack.encode(_Buffered(queue, draft, producer)))
            for queue, some in named.items()
            for draft in some
        ]
        backoff = Backoff("the maintenance mode")
        while self._mode.buffers:
            versions = await self._check_all(named)
            batch = PushBatch(BUFFER, rows, self._limits, internal=True)
            outcome = await self._pusher.attempt(
                batch, None, based_on=self._mode.basis, queues=versions
            )
            if isinstance(outcome, Applied):
                return named
            await backoff.pause()
        return None

    async def _check_all(self, drafts: Mapping[str, Sequence[Draft]]) -> tuple[QueueVersion, ...]:
        """The configurations of the queues that exist, of which none may be encrypted."""
        known = self._registry.queues
        if any(queue not in known for queue in drafts):
            await self._peer_sync.complete()
        for number, (queue, some) in enumerate(drafts.items()):
            try:
                PushBatch(queue, some, self._limits)
            except Invalid as error:
                raise error.within("pushes", number) from None
            if queue in known and known[queue].config.options.encryption_enabled:
                raise Unavailable("encrypted queues take nothing while pushing is in maintenance")
        self._quotas.check_later(
            {queue: {draft.partition for draft in some} for queue, some in drafts.items()}
        )
        return tuple(known[queue].versions[0] for queue in drafts if queue in known)

    async def _put(self, key: str, value: bytes | None) -> None:
        await run_to_completion(self._put_whole(key, value))

    async def _put_whole(self, key: str, value: bytes | None) -> None:
        update = EntryUpdate(space=SPACE, key=key, value=value)
        await self._committer.submit(Change(entries=(update,)))
        await self._mode.load()

    async def _drain(self) -> None:
        """Deliver what is buffered, until a commit finds that nothing is."""
        try:
            while self._mode.push is PushMode.DRAINING:
                try:
                    if not await self._deliver_some() and not await self._finish():
                        # A push is under way, or another server holds the lease for a while.
                        await asyncio.sleep(_LOOK_SECONDS)
                except SkepError as error:
                    _log.warning("could not deliver buffered messages, will retry: %s", error)
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._draining = None

    async def _finish(self) -> bool:
        """Go back to normal operation, if nothing is buffered. False if something may be."""
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

    async def _deliver_some(self) -> bool:
        delivery = await self._popper.pop(_POP)
        if delivery is None:
            return False
        try:
            buffered = await self._readable(delivery)
            for producer, some in groupby(buffered, key=lambda pair: pair[1].producer):
                await self._move(delivery, list(some), producer)
        except SkepError:
            # Not lost and not moved: the lease is given back, to try again from there.
            await self._transactor.settle(lease_id_of(delivery), [_later(delivery.messages[-1])])
            raise
        return True

    async def _readable(self, delivery: Delivery) -> list[tuple[Message, _Buffered]]:
        """What can be delivered. The rest becomes dead letters, so as not to hold up others."""
        readable: list[tuple[Message, _Buffered]] = []
        damaged: list[Verdict] = []
        for message in delivery.messages:
            try:
                buffered = _decode(message)
                PushBatch(buffered.queue, [buffered.draft], self._limits)
            except (msgspec.MsgspecError, Invalid) as error:
                _log.error(
                    "a buffered message cannot be delivered and becomes a dead letter of %s: "
                    "partition=%d offset=%d bytes=%d reason=%s",
                    BUFFER,
                    message.partition_number,
                    message.offset,
                    len(message.payload),
                    error,
                )
                damaged.append(_dead(message, str(error)))
            else:
                readable.append((message, buffered))
        if damaged:
            await self._transactor.settle(lease_id_of(delivery), damaged)
        return readable

    async def _move(
        self, delivery: Delivery, buffered: list[tuple[Message, _Buffered]], producer: str | None
    ) -> None:
        drafts: dict[str, list[Draft]] = {}
        for _, each in buffered:
            drafts.setdefault(each.queue, []).append(each.draft)
        operations: list[Operation] = [Push(queue, some) for queue, some in drafts.items()]
        operations.append(Ack(str(delivery.lease_id), [_done(message) for message, _ in buffered]))
        await self._transactor.run(operations, producer=producer, based_on=self._mode.basis)


def _with_id(draft: Draft) -> Draft:
    return replace(draft, transaction_id=str(uuid4())) if draft.transaction_id is None else draft


def _decode(message: Message) -> _Buffered:
    return msgspec.msgpack.decode(message.payload, type=_Buffered)


def _done(message: Message) -> Verdict:
    return Verdict(message.partition_number, message.offset)


def _dead(message: Message, error: str) -> Verdict:
    return Verdict(message.partition_number, message.offset, "dead_letter", error)


def _later(message: Message) -> Verdict:
    return Verdict(message.partition_number, message.offset, "retry")
