"""Giving memory back when a crowd has gone: left alone, the allocators keep it for ever."""

import ctypes
import gc

_CROWD = 1_000
"""Connections that must have gone for it to be worth a pause of some milliseconds."""


class Relief:
    def __init__(self) -> None:
        self._most = 0
        """How many connections there were at once since memory was given back."""
        self._last = 0

    def look(self, connections: int) -> None:
        """Called several times a second with the number of connections."""
        self._most = max(self._most, connections)
        still_going = connections < self._last
        self._last = connections
        if self._most - connections >= _CROWD and not still_going:
            self._most = connections
            gc.collect()
            _trim()


def _trim() -> None:
    """Only glibc has to be asked."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
