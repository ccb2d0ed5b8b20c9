"""The roles of a store that one process has to itself: no peers, one lane, no outbox."""

from collections.abc import Collection, Iterable

from skep.model.outbox import OutboxRow
from skep.model.peer_event import PeerEvent

LANE = 0
"""The only lane."""


class SingleServer:
    """Peer events and the outbox of a store without peers: there are none of either."""

    async def accept_timeline(self, timeline: str) -> None:
        """Do nothing: such a store has one timeline."""

    async def start_peer_events(self) -> None:
        """Do nothing: no peer publishes anything."""

    async def peer_events(self) -> list[PeerEvent] | None:
        return []

    def mark_applied(self, events: Iterable[PeerEvent]) -> None:
        """Do nothing: no peer publishes anything."""

    async def acquire_leadership(self, name: str, seconds: float) -> bool:
        return True

    async def outbox_rows(
        self, *, limit: int, size: int, payload_bytes: int, without: Collection[str] = ()
    ) -> list[OutboxRow]:
        return []

    async def reject_outbox_row(self, number: int, reason: str) -> None:
        """Do nothing: ``outbox_rows`` returned no row."""

    def is_enqueued(self, number: int) -> bool:
        return False
