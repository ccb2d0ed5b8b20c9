"""Reports of a run to the server, from a background thread."""

import logging
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from skep.client.retry import Retry
from skep.client.sync_client import Client
from skep.model.pipeline import MAX_TEXT, PipelineRun
from skep.pipelines.record import RunRecord

PACE_SECONDS = 1.0
"""Minimum time between two reports; changes in between are combined."""
HEARTBEAT_SECONDS = 20.0
"""Maximum time between two reports: after a minute without one a run is considered dead."""
TIMEOUT_SECONDS = 2.0
CLOSE_SECONDS = 5.0
THREAD = "skep-run-reporter"
_ONCE = Retry(attempts=1)
_log = logging.getLogger("skep.pipeline")


class RunReporter:
    """Reports the latest state of a run to the server, in a thread of its own.

    A server that is unavailable neither fails nor delays the run.
    """

    def __init__(
        self,
        put: Callable[[PipelineRun], object],
        *,
        pace: float = PACE_SECONDS,
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._put = put
        self._pace = pace
        self._heartbeat = heartbeat
        self._changed = threading.Condition()
        self._last: PipelineRun | None = None
        self._is_new = False
        self._ending = False
        self._warned = False
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        self._thread.start()

    def report(self, run: PipelineRun) -> None:
        """Set the state to report next."""
        with self._changed:
            self._last, self._is_new = run, True
            self._changed.notify_all()

    def close(self) -> None:
        """Send the last report, and end the thread."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while (run := self._next()) is not None:
            self._send(run)
            with self._changed:
                self._changed.wait_for(lambda: self._ending, self._pace)

    def _next(self) -> PipelineRun | None:
        """Wait until a report is due and return it; None at the end."""
        with self._changed:
            timeout = self._heartbeat if self._last else None
            self._changed.wait_for(lambda: self._is_new or self._ending, timeout)
            is_done = self._ending and not self._is_new
            self._is_new = False
            return None if is_done else self._last

    def _send(self, run: PipelineRun) -> None:
        try:
            self._put(run)
        except Exception as error:
            if not self._warned:
                _log.warning(
                    "could not report the run to the server: run=%s error=%s", run.id, error
                )
            self._warned = True


@contextmanager
def reporting(url: str, token: str | None) -> Iterator[Callable[[RunRecord], None]]:
    """Yield a function that reports the state of a run to a server."""
    with Client(url, token=token or None, timeout=TIMEOUT_SECONDS, retry=_ONCE) as client:
        reporter = RunReporter(client.pipelines.put)
        try:
            yield lambda run: reporter.report(to_pipeline_run(run))
        finally:
            reporter.close()


def to_pipeline_run(run: RunRecord) -> PipelineRun:
    """Return the record of a run as the server stores it."""
    return PipelineRun(
        id=run.id,
        pipeline=run.pipeline,
        queues=run.queues,
        target=run.target,
        state=run.state,
        messages=run.messages,
        batches=run.batches,
        groups=run.groups,
        host=this_host(),
        started_at=run.started_at,
        updated_at=run.updated_at,
        error=run.error and run.error[:MAX_TEXT],
    )


def this_host() -> str:
    return platform.node() or "unknown"
