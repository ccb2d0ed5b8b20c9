"""Telling the server of a run, beside the run."""

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
"""What happens sooner after the last time is told later, with what happens then."""
HEARTBEAT_SECONDS = 20.0
"""Said again although nothing happened: after a minute of silence a run is thought to be dead."""
TIMEOUT_SECONDS = 2.0
ENDING_SECONDS = 5.0
THREAD = "skep-telling"
_ONCE = Retry(attempts=1)
_log = logging.getLogger("skep.pipeline")


class Teller:
    """Says what was last heard of a run, in a thread of its own.

    A server that does not answer is no reason for a run to fail, nor to wait.
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
        self._complained = False
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        self._thread.start()

    def tell(self, run: PipelineRun) -> None:
        with self._changed:
            self._last, self._is_new = run, True
            self._changed.notify_all()

    def close(self) -> None:
        """Say the last of it, and end."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(ENDING_SECONDS)

    def _run(self) -> None:
        while (run := self._next()) is not None:
            self._say(run)
            with self._changed:
                self._changed.wait_for(lambda: self._ending, self._pace)

    def _next(self) -> PipelineRun | None:
        """What is to be said next, when it is time; None at the end."""
        with self._changed:
            timeout = self._heartbeat if self._last else None
            self._changed.wait_for(lambda: self._is_new or self._ending, timeout)
            said = self._ending and not self._is_new
            self._is_new = False
            return None if said else self._last

    def _say(self, run: PipelineRun) -> None:
        try:
            self._put(run)
        except Exception as error:
            if not self._complained:
                _log.warning("the server is not told of this run: %s", error)
            self._complained = True


@contextmanager
def telling(url: str, token: str | None) -> Iterator[Callable[[RunRecord], None]]:
    """What tells a server of a run, as often as there is something to tell."""
    with Client(url, token=token or None, timeout=TIMEOUT_SECONDS, retry=_ONCE) as client:
        teller = Teller(client.pipelines.put)
        try:
            yield lambda run: teller.tell(to_told(run))
        finally:
            teller.close()


def to_told(run: RunRecord) -> PipelineRun:
    """A run of this machine as others see it."""
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
