"""What a store says of others if it has no others: one process, one lane, no news, no outbox."""

from collections.abc import Collection, Iterable, Sequence

from skep.model.outbox import Enqueued
from skep.model.peer_event import News
from skep.store.protocol import Gauge


class SingleServer:
    shared = False
    lane = 0
    history = ""
    failure: str | None = None

    async def accept_history(self, history: str) -> None:
        """There is only one."""

    def gauges(self) -> Sequence[Gauge]:
        return ()

    has_peers = False

    async def begin_news(self) -> None:
        """There are no other servers."""

    async def news(self) -> list[News] | None:
        return []

    def heard(self, news: Iterable[News]) -> None:
        """There are no other servers."""

    async def take_duty(self, name: str, seconds: float) -> bool:
        return True

    async def enqueued(
        self, *, limit: int, size: int, payload_bytes: int, without: Collection[str] = ()
    ) -> list[Enqueued]:
        return []

    async def refuse_enqueued(self, number: int, reason: str) -> None:
        """There is none that could be refused."""

    def is_enqueued(self, number: int) -> bool:
        return False
