"""Running streams to their end, and saying how far they are."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Tell: TypeAlias = Callable[[int], None]
"""Called with the messages of each batch."""

POLL_SECONDS = 0.2


def run_stream(
    writer: "DataStreamWriter", checkpoint: str, tell: Tell, *, every: str | None = None
) -> bool:
    """Write all there is now; or go on ``every`` so often, until somebody stops it.

    Says whether it came to an end by itself.
    """
    writer = writer.option("checkpointLocation", checkpoint)
    query = (
        writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)
    ).start()
    with _stop_signals() as stopped:
        try:
            _follow(query, tell, stopped)
        finally:
            query.stop()
    return not stopped


def _follow(query: "StreamingQuery", tell: Tell, stopped: list[int]) -> None:
    told = -1
    running = True
    while running and not stopped:
        running = not query.awaitTermination(POLL_SECONDS)  # type: ignore[arg-type]
        for progress in query.recentProgress:
            if progress.batchId > told and progress.numInputRows:
                told = progress.batchId
                tell(progress.numInputRows)


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """To be stopped is an ordinary end: what was not finished is done again next time."""
    stopped: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: stopped.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def reason_of(error: Exception) -> str:
    """What is wrong, out of the pages that Spark says about it."""
    text = str(error)
    ours = re.findall(r"^pyspark_skep\.errors\.\w+: (.+)$", text, re.MULTILINE)
    if ours:
        return str(ours[-1])
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
