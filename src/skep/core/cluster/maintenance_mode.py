"""Maintenance mode as this server knows it: whether pushes are buffered, and pops paused.

The mode is stored in two entries, which do not exist in normal operation. Pushes and pops name the
entry that they relied on, and the store compares it when it commits them: so a server that does
not know of a change of the mode yet cannot act on the old one.
"""

from enum import Enum

from skep.core.cluster.peer_sync import PeerSync
from skep.errors import InMaintenance
from skep.model.change import EntryVersion
from skep.store.protocol import EntryStore

SPACE = "maintenance"
PUSHING, POPPING = "pushing", "popping"

NORMAL_PUSH = (EntryVersion(SPACE, PUSHING, 0),)
NORMAL_POP = (EntryVersion(SPACE, POPPING, 0),)


class PushMode(Enum):
    NORMAL = b""
    BUFFERING = b"on"
    DRAINING = b"draining"
    """What was buffered is being delivered; pushes are buffered behind it."""


class MaintenanceMode:
    def __init__(self, store: EntryStore, peer_sync: PeerSync) -> None:
        self._store = store
        self._peer_sync = peer_sync
        self._version = 0
        self.push = PushMode.NORMAL
        self.pops_paused = False

    async def load(self) -> None:
        entries = {
            entry.key: entry for entry in await self._store.find_entries(SPACE, [PUSHING, POPPING])
        }
        pushing = entries.get(PUSHING)
        self.push = PushMode(pushing.value) if pushing else PushMode.NORMAL
        self._version = pushing.version if pushing else 0
        self.pops_paused = POPPING in entries

    @property
    def buffers(self) -> bool:
        """Whether pushes are buffered instead of delivered."""
        return self.push is not PushMode.NORMAL

    @property
    def basis(self) -> tuple[EntryVersion, ...]:
        """What a decision on the current push mode is based on."""
        return (EntryVersion(SPACE, PUSHING, self._version),)

    async def check_normal(self) -> None:
        """Raise ``InMaintenance`` if pushes are buffered, whichever server ended that."""
        if not await self._peer_sync.find(lambda: not self.buffers):
            raise InMaintenance
