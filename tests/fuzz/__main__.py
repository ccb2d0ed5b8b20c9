"""Search for broken promises: ``python -m tests.fuzz --seconds 60 --seed 1``."""

import argparse
import logging
import signal
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from tempfile import mkdtemp

from tests.fuzz.concurrent import close_cluster
from tests.fuzz.search import CONCURRENT, DIFFERENTIAL, Search
from tests.support.postgres_databases import close_databases


def main() -> int:
    asked = _arguments()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    # What the servers log about faults that were injected would bury what was found.
    logging.disable(logging.CRITICAL)
    # What was started is ended, too, if this process is told to stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    kept = Path(asked.keep or mkdtemp(prefix="skep-fuzz-"))
    kinds = [asked.only] if asked.only else [DIFFERENTIAL, CONCURRENT]
    search = Search(kept, ignored=asked.ignore, keep_going=asked.keep_going)
    try:
        if asked.round:
            search.play(asked.round)
        else:
            search.run(asked.seed, asked.seconds, kinds)
    finally:
        close_databases()
        close_cluster()
        with suppress(OSError):
            kept.rmdir()  # nothing is kept in it
    search.summarise()
    return int(search.failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to search")
    parser.add_argument("--seed", default="1", help="decides all that is left to chance")
    parser.add_argument("--round", help="play only this round, as a failure names it")
    parser.add_argument("--only", choices=[DIFFERENTIAL, CONCURRENT], help="one kind of round")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="RULE", help="a known failure; may have *"
    )
    parser.add_argument("--keep-going", action="store_true", help="count failures by rule")
    parser.add_argument("--keep", metavar="DIRECTORY", help="where histories of failures are kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
