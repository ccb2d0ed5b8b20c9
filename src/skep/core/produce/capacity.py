"""How full a queue is, in a form that a commit can check."""

from skep.core.cluster.peer_sync import PeerSync
from skep.core.state.queue_state import QueueState
from skep.errors import QueueFull
from skep.model.change import Capacity
from skep.store.protocol import LogStore


class FillLevel:
    """The backlog of queues, and how many messages were ever pushed to them by then."""

    def __init__(self, store: LogStore, peer_sync: PeerSync) -> None:
        self._store = store
        self._peer_sync = peer_sync

    async def pushed(self, queue: QueueState) -> int:
        """How many messages were ever pushed; all of them count in the queue's backlog.

        The number is read first. What is pushed while the servers are being followed makes the
        backlog larger than the number says: then a commit is refused too early, never too late.
        """
        pushed = sum((await self._store.heads(queue.config.number)).values())
        await self._peer_sync.complete(queue.config.name)
        return pushed

    async def capacity(
        self, queue: QueueState, messages: int, beside: int = 0
    ) -> tuple[Capacity, ...]:
        """What a change that adds messages to a queue relies on; raises ``QueueFull``.

        ``beside`` are messages that the same change adds for other reasons.
        """
        if not queue.config.options.max_size or not messages:
            return ()
        pushed = await self.pushed(queue)
        room = queue.room()
        if room is None:
            return ()
        if messages + beside > room:
            raise QueueFull(
                queue.config.name, depth=queue.depth, capacity=queue.config.options.max_size
            )
        return (Capacity(queue.config.number, messages, pushed + room),)
