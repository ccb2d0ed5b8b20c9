"""The roles of a store that one process has to itself: no peers, one lane, no outbox."""

from collections.abc import Collection, Iterable

from skep.model.outbox import Enqueued
from skep.model.peer_event import News

LANE = 0
"""The only lane."""


class SingleServer:
    """Peer events and the outbox of a store without peers: there are none of either."""

    async def accept_history(self, history: str) -> None:
        """Do nothing: such a store has one timeline."""

    async def begin_news(self) -> None:
        """Do nothing: no peer publishes anything."""

    async def news(self) -> list[News] | None:
        return []

    def heard(self, news: Iterable[News]) -> None:
        """Do nothing: no peer publishes anything."""

    async def take_duty(self, name: str, seconds: float) -> bool:
        return True

    async def enqueued(
        self, *, limit: int, size: int, payload_bytes: int, without: Collection[str] = ()
    ) -> list[Enqueued]:
        return []

    async def refuse_enqueued(self, number: int, reason: str) -> None:
        """Do nothing: ``enqueued`` returned no row."""

    def is_enqueued(self, number: int) -> bool:
        return False
