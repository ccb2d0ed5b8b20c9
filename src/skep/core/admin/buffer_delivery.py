"""Moves buffered messages to their queues: each leaves the buffer in the change that pushes it."""

import logging
from itertools import groupby

import msgspec

from skep.core.admin.push_buffer import BUFFER, BufferedDraft, decode_buffered
from skep.core.cluster.maintenance_mode import MaintenanceMode
from skep.core.consume.pop import Popper
from skep.core.consume.settlement import Settler
from skep.core.limits import Limits
from skep.core.produce.push_batch import PushBatch
from skep.core.transaction.transaction import Transactor
from skep.errors import Invalid, SkepError
from skep.model.message import Delivery, Draft, Message
from skep.model.operation import Ack, Operation, Push, Verdict, lease_id_of
from skep.model.pop_request import PopRequest

_BATCH = 500
_LEASE_SECONDS = 10
_POP = PopRequest(queue=BUFFER, batch=_BATCH, lease_seconds=_LEASE_SECONDS)
_log = logging.getLogger("skep.broker")


class BufferDelivery:
    def __init__(
        self,
        popper: Popper,
        settler: Settler,
        transactor: Transactor,
        mode: MaintenanceMode,
        limits: Limits,
    ) -> None:
        self._popper = popper
        self._settler = settler
        self._transactor = transactor
        self._mode = mode
        self._limits = limits

    async def deliver(self) -> bool:
        """Deliver a batch of buffered messages; False if none is available."""
        delivery = await self._popper.pop(_POP)
        if delivery is None:
            return False
        try:
            readable = await self._readable(delivery)
            for producer, batch in groupby(readable, key=lambda pair: pair[1].producer):
                await self._move(delivery, list(batch), producer)
        except SkepError:
            # Nothing is lost: the lease is released, so that delivery is retried from there.
            await self._settler.settle(lease_id_of(delivery), [_retry(delivery.messages[-1])])
            raise
        return True

    async def _readable(self, delivery: Delivery) -> list[tuple[Message, BufferedDraft]]:
        """The messages that can be delivered; the others are dead-lettered."""
        readable: list[tuple[Message, BufferedDraft]] = []
        damaged: list[Verdict] = []
        for message in delivery.messages:
            try:
                buffered = decode_buffered(message)
                PushBatch(buffered.queue, [buffered.draft], self._limits)
            except (msgspec.MsgspecError, Invalid) as error:
                _log.error(
                    "dead-lettered an undeliverable buffered message: "
                    "queue=%s partition=%d offset=%d bytes=%d reason=%s",
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
            await self._settler.settle(lease_id_of(delivery), damaged)
        return readable

    async def _move(
        self,
        delivery: Delivery,
        batch: list[tuple[Message, BufferedDraft]],
        producer: str | None,
    ) -> None:
        drafts: dict[str, list[Draft]] = {}
        for _, buffered in batch:
            drafts.setdefault(buffered.queue, []).append(buffered.draft)
        operations: list[Operation] = [Push(queue, pushed) for queue, pushed in drafts.items()]
        operations.append(Ack(str(delivery.lease_id), [_done(message) for message, _ in batch]))
        await self._transactor.run(operations, producer=producer, based_on=self._mode.basis)


def _done(message: Message) -> Verdict:
    return Verdict(message.partition_number, message.offset)


def _dead(message: Message, error: str) -> Verdict:
    return Verdict(message.partition_number, message.offset, "dead_letter", error)


def _retry(message: Message) -> Verdict:
    return Verdict(message.partition_number, message.offset, "retry")
