"""Maintenance: pushes are laid aside instead of delivered, pops find nothing.

What is laid aside is in a queue like any other, so it is as durable; it leaves that queue in the
change in which it enters its own, so nothing is lost or doubled, whenever the process ends. Order
is kept: as long as something lies aside, what is pushed is laid behind it.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Protocol
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from skep.core.catalogue import Catalogue
from skep.core.limits import Limits
from skep.core.push import Batch
from skep.errors import Invalid, SkepError, Unavailable
from skep.model.change import EntryUpdate
from skep.model.message import Delivery, Draft, Message, Receipt
from skep.model.names import RESERVED
from skep.model.operation import Ack, Keep, Operation, Push, Settlement, Transaction, Verdict
from skep.store.protocol import Store

ASIDE = f"{RESERVED}aside"
_PUSHING, _POPPING = "pushing", "popping"
_BATCH = 500
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 0.01
_LEASE_SECONDS = 10
_log = logging.getLogger("skep.maintenance")


class _Laid(msgspec.Struct, frozen=True, array_like=True):
    """A draft as it lies aside."""

    queue: str
    draft: Draft
    producer: str | None


class Queue(Protocol):
    """What this needs of a broker."""

    async def push(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Receipt]: ...
    async def pop(self, queue: str, *, batch: int, lease_seconds: int) -> Delivery | None: ...
    async def settle(self, lease: Delivery, verdicts: Sequence[Verdict]) -> Settlement: ...
    async def transact(
        self, operations: Sequence[Operation], *, producer: str | None = None
    ) -> Transaction: ...


class Maintenance:
    """``pushing`` and ``popping`` say what is in maintenance."""

    SPACE = "maintenance"

    def __init__(self, store: Store, catalogue: Catalogue, queue: Queue, limits: Limits) -> None:
        self._store = store
        self._catalogue = catalogue
        self._queue = queue
        self._limits = limits
        self._bringing: asyncio.Task[None] | None = None
        self._under_way = 0
        self.pushing = False
        self.popping = False

    @property
    def aside(self) -> int:
        """How many messages lie aside."""
        state = self._catalogue.queues.get(ASIDE)
        return state.depth if state else 0

    @property
    def laying_aside(self) -> bool:
        """Whether what is pushed now has to be laid aside."""
        return self.pushing or self._bringing is not None

    async def load(self) -> None:
        entries = await self._store.find_entries(self.SPACE, [_PUSHING, _POPPING])
        on = {entry.key for entry in entries}
        self.pushing, self.popping = _PUSHING in on, _POPPING in on
        self._bring_back()

    async def close(self) -> None:
        if self._bringing:
            self._bringing.cancel()
            await asyncio.wait([self._bringing])

    async def set_pushing(self, on: bool) -> None:
        """Begin or end to lay pushes aside. At the end all of it is delivered."""
        await self._note(_PUSHING, on)
        self.pushing = on
        self._bring_back()

    async def set_popping(self, on: bool) -> None:
        await self._note(_POPPING, on)
        self.popping = on

    async def lay_aside(
        self, drafts: Mapping[str, Sequence[Draft]], producer: str | None
    ) -> dict[str, list[Draft]]:
        """Keep drafts, by queue, for later: durably, all or none.

        Returns them with the transaction ids they will have. What a push would refuse is refused
        now: later there would be nobody to tell.
        """
        for number, (queue, some) in enumerate(drafts.items()):
            try:
                self._check(queue, some)
            except Invalid as error:
                raise error.within(f"pushes[{number}]") from None
        named = {
            queue: [
                draft if draft.transaction_id else replace(draft, transaction_id=str(uuid4()))
                for draft in some
            ]
            for queue, some in drafts.items()
        }
        laid = [
            Draft(msgspec.msgpack.encode(_Laid(queue, draft, producer)))
            for queue, some in named.items()
            for draft in some
        ]
        self._under_way += 1
        try:
            await self._queue.push(ASIDE, laid)
        finally:
            self._under_way -= 1
            self._bring_back()
        return named

    def _check(self, queue: str, drafts: Sequence[Draft]) -> None:
        Batch(queue, drafts, self._limits)
        state = self._catalogue.queues.get(queue)
        if state and state.config.options.encryption_enabled:
            raise Unavailable("encrypted queues take nothing while pushing is in maintenance")

    async def _note(self, what: str, on: bool) -> None:
        value = b"on" if on else None
        await self._queue.transact([Keep([EntryUpdate(space=self.SPACE, key=what, value=value)])])

    def _bring_back(self) -> None:
        """Deliver what lies aside, if it is time and nobody does."""
        if not self.pushing and self._bringing is None and (self.aside or self._under_way):
            self._bringing = asyncio.create_task(self._deliver())

    async def _deliver(self) -> None:
        try:
            while not self.pushing and (self.aside or self._under_way):
                try:
                    await self._deliver_some()
                except SkepError as error:
                    _log.warning("what lies aside cannot be delivered yet: %s", error)
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            # Nothing is awaited since the last look: what is pushed from now on is behind it all.
            self._bringing = None

    async def _deliver_some(self) -> None:
        delivery = await self._queue.pop(ASIDE, batch=_BATCH, lease_seconds=_LEASE_SECONDS)
        if delivery is None:
            # A push is under way, or a process that ended holds the lease for a while.
            await asyncio.sleep(_LOOK_SECONDS)
            return
        laid = [(message, _laid(message)) for message in delivery.messages]
        try:
            for producer, some in groupby(laid, key=lambda pair: pair[1].producer):
                await self._move(delivery, list(some), producer)
        except SkepError:
            # Not lost and not moved: the lease is given back, to try again from there.
            await self._queue.settle(delivery, [_later(delivery.messages[-1])])
            raise

    async def _move(
        self, delivery: Delivery, laid: list[tuple[Message, _Laid]], producer: str | None
    ) -> None:
        drafts: dict[str, list[Draft]] = {}
        for _, each in laid:
            drafts.setdefault(each.queue, []).append(each.draft)
        operations: list[Operation] = [Push(queue, some) for queue, some in drafts.items()]
        operations.append(Ack(str(delivery.lease_id), [_done(message) for message, _ in laid]))
        await self._queue.transact(operations, producer=producer)


def _laid(message: Message) -> _Laid:
    return msgspec.msgpack.decode(message.payload, type=_Laid)


def _done(message: Message) -> Verdict:
    return Verdict(message.partition_number, message.offset)


def _later(message: Message) -> Verdict:
    return Verdict(message.partition_number, message.offset, "retry")
