"""How many files a server may have open: each connection and each file of the store is one."""

import logging
import resource

ENOUGH = 16_000
"""10,000 connections, the default limit, and the files of a store with room to spare."""

_log = logging.getLogger("skep.serve")


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard one; warn if that is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:
            # Some systems have a lower bound than they say.
            _log.warning("the soft limit of open files stays at %d: %s", soft, error)
    if soft != resource.RLIM_INFINITY and soft < ENOUGH:
        _log.warning(
            "the limit of open files is %d, fewer than %d: connections may be refused; "
            "raise it with ulimit -Hn or LimitNOFILE",
            soft,
            ENOUGH,
        )
