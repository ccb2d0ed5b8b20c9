"""The buffer of pushes in maintenance: a reserved queue of encoded drafts."""

from collections.abc import Mapping, Sequence
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from skep.core.aio import Backoff
from skep.core.cluster.maintenance_mode import MaintenanceMode
from skep.core.cluster.peer_sync import PeerSync
from skep.core.limits import Limits
from skep.core.produce.push import Pusher
from skep.core.produce.push_batch import PushBatch
from skep.core.state.quota import Quotas
from skep.core.state.registry import Registry
from skep.errors import Invalid, Unavailable
from skep.model.change import Applied, QueueVersion
from skep.model.message import Draft, Message
from skep.model.name import RESERVED

BUFFER = f"{RESERVED}aside"
"""The name of the reserved queue, as stores already have it."""


class BufferedDraft(msgspec.Struct, frozen=True, array_like=True):
    """A draft in the buffer, with the queue it was pushed to."""

    queue: str
    draft: Draft
    producer: str | None

    def encode(self) -> Draft:
        return Draft(msgspec.msgpack.encode(self))


def decode_buffered(message: Message) -> BufferedDraft:
    return msgspec.msgpack.decode(message.payload, type=BufferedDraft)


class PushBuffer:
    def __init__(
        self,
        registry: Registry,
        quotas: Quotas,
        peer_sync: PeerSync,
        mode: MaintenanceMode,
        pusher: Pusher,
        limits: Limits,
    ) -> None:
        self._registry = registry
        self._quotas = quotas
        self._peer_sync = peer_sync
        self._mode = mode
        self._pusher = pusher
        self._limits = limits

    @property
    def messages(self) -> int:
        """How many messages are in the buffer."""
        state = self._registry.queues.get(BUFFER)
        return state.depth if state else 0

    async def push(
        self, drafts: Mapping[str, Sequence[Draft]], producer: str | None
    ) -> dict[str, list[Draft]] | None:
        """Buffer drafts, by queue, durably, all or none.

        Returns them with the transaction ids they will have; None, and nothing was written, if
        pushes are not buffered any more. A draft that a push would reject is rejected now, while
        the producer can be told.
        """
        named = {queue: list(map(_with_id, batch)) for queue, batch in drafts.items()}
        rows = [
            BufferedDraft(queue, draft, producer).encode()
            for queue, batch in named.items()
            for draft in batch
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
        """The versions of the queues that exist; raises what a push of the drafts would."""
        queues = self._registry.queues
        if any(name not in queues for name in drafts):
            await self._peer_sync.complete()
        for index, (name, batch) in enumerate(drafts.items()):
            try:
                PushBatch(name, batch, self._limits)
            except Invalid as error:
                raise error.within("pushes", index) from None
            if name in queues and queues[name].config.options.encryption_enabled:
                raise Unavailable("encrypted queues take nothing while pushing is in maintenance")
        self._quotas.check_later(
            {name: {draft.partition for draft in batch} for name, batch in drafts.items()}
        )
        return tuple(queues[name].versions[0] for name in drafts if name in queues)


def _with_id(draft: Draft) -> Draft:
    return replace(draft, transaction_id=str(uuid4())) if draft.transaction_id is None else draft
