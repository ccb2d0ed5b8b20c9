"""The limit of open files: each connection and each file of the store counts."""

import logging
import resource

ENOUGH = 16_000
"""10,000 connections, the default limit, and the files of a store, with a margin."""

_log = logging.getLogger("skep.server")


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard limit; warn if that is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:
            # Some systems enforce a lower limit than they report.
            _log.warning(
                "could not raise the soft limit of open files: limit=%d error=%s", soft, error
            )
    if soft != resource.RLIM_INFINITY and soft < ENOUGH:
        _log.warning(
            "low limit of open files, connections may be refused; "
            "raise it with ulimit -Hn or LimitNOFILE: limit=%d recommended=%d",
            soft,
            ENOUGH,
        )
