"""CPU time and memory of this process."""

import os
import resource
import sys
from pathlib import Path

from skep.wire.stats.analytics import Usage

_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATM = Path("/proc/self/statm")


def usage_now() -> Usage:
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Kilobytes, but bytes on macOS.
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Usage(
        rss_bytes=_resident(peak),
        peak_rss_bytes=peak,
        user_seconds=used.ru_utime,
        system_seconds=used.ru_stime,
    )


def _resident(otherwise: int) -> int:
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE
    except OSError:
        return otherwise
