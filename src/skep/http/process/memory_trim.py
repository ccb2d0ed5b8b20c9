"""Keeps freed memory for the next requests, and returns it after many connections were closed.

By default, glibc returns large buffers to the system after each request and allocates them again,
which costs more than filling them; and it never returns the memory of thousands of closed
connections.
"""

import ctypes
import gc

_MANY_CONNECTIONS = 1_000
"""Closed connections that make a pause of some milliseconds worthwhile."""
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
"""Parameter numbers of ``mallopt``."""
_KEPT_BYTES = 32 << 20
_LARGE_BYTES = 512 << 10
"""Larger allocations go back to the system at once: kept, they would fragment the heap."""


class MemoryTrimmer:
    def __init__(self) -> None:
        self._most = 0
        """The maximum number of connections since memory was last returned."""
        self._last = 0
        self._libc = ctypes.CDLL(None)
        if hasattr(self._libc, "mallopt"):
            self._libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
            self._libc.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)

    def observe(self, connections: int) -> None:
        """Trim after connections were closed; called several times a second with their number."""
        self._most = max(self._most, connections)
        still_going = connections < self._last
        self._last = connections
        if self._most - connections >= _MANY_CONNECTIONS and not still_going:
            self._most = connections
            gc.collect()
            if hasattr(self._libc, "malloc_trim"):
                self._libc.malloc_trim(0)
