"""Memory of a server: kept from one round to the next, given back when a crowd has gone.

Left alone, glibc returns the buffers of every round to the system and asks for them again, which
costs more than filling them; and keeps for ever what thousands of connections had.
"""

import ctypes
import gc

_CROWD = 1_000
"""Connections that must have gone for it to be worth a pause of some milliseconds."""
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
"""The numbers of ``mallopt``'s settings."""
_KEPT_BYTES = 32 << 20
_LARGE_BYTES = 512 << 10
"""What is as large as this goes back to the system at once: kept, it would leave holes."""


class MemoryTrimmer:
    def __init__(self) -> None:
        self._most = 0
        """How many connections there were at once since memory was given back."""
        self._last = 0
        self._libc = ctypes.CDLL(None)
        if hasattr(self._libc, "mallopt"):
            self._libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
            self._libc.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)

    def observe(self, connections: int) -> None:
        """Called several times a second with the number of connections."""
        self._most = max(self._most, connections)
        still_going = connections < self._last
        self._last = connections
        if self._most - connections >= _CROWD and not still_going:
            self._most = connections
            gc.collect()
            if hasattr(self._libc, "malloc_trim"):
                self._libc.malloc_trim(0)
