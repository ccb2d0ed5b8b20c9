"""The model's view of a group in one partition: a set of offsets that are done, and a lease."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.machine.model_partition import Log

SECOND = 1_000_000


class Report(NamedTuple):
    """What a consumer says of one message."""

    offset: int
    status: str
    error: str = ""


class Run(NamedTuple):
    """What a pop gets from one partition."""

    offsets: list[int]
    attempt: int


@dataclass
class Settled:
    completed: list[int] = field(default_factory=list)
    dead: dict[int, str] = field(default_factory=dict)
    failed_before: int | None = None
    """If it is to come again: how often it had failed as a whole before."""
    released: bool = False


@dataclass
class ModelConsumer:
    log: Log
    base: int = field(init=False)
    """Where the group started, was moved to, or was last told what had been removed unread."""
    done: set[int] = field(default_factory=set)
    run_end: int = 0
    attempt: int = 0
    retries: int = 0
    ready_at: int = 0
    lease: str | None = None
    expires_at: int = 0
    completed: int = 0
    failed: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.base = self.log.start

    @property
    def cursor(self) -> int:
        offset = max(self.base, self.log.start)
        while offset in self.done:
            offset += 1
        return offset

    @property
    def beyond(self) -> set[int]:
        """What is done beyond the cursor."""
        return {offset for offset in self.done if offset >= self.cursor}

    @property
    def backlog(self) -> int:
        return self.log.end - self.cursor - len(self.beyond)

    @property
    def open(self) -> list[int]:
        """What the lease still holds."""
        return [o for o in range(self.base, self.run_end) if o not in self.done]

    def is_leased(self, now: int) -> bool:
        return self.lease is not None and self.expires_at > now

    def is_ready(self, now: int) -> bool:
        return self.cursor < self.log.end and not self.is_leased(now) and self.ready_at <= now

    def window(self, batch: int) -> tuple[list[int], int]:
        """What a pop of this size delivers, and where its run ends.

        It looks at as many offsets as it may deliver, not counting those that are done. A run
        that comes back does not grow; a smaller pop cuts it.
        """
        limit = self.run_end if self.run_end > self.cursor else self.log.end
        end = min(limit, self.cursor + batch + len(self.beyond))
        found = [
            offset
            for offset in range(self.cursor, end)
            if offset not in self.done and offset not in self.log.deleted
        ]
        return (found[:batch], found[batch]) if len(found) > batch else (found, end)

    def truncated(self) -> int:
        """Messages that were removed before the group was done with them."""
        return sum(offset not in self.done for offset in range(self.base, self.log.start))

    def take(self, batch: int, *, lease: str | None, expires_at: int) -> Run:
        """Lease the next run, or be done with it at once if there is no lease to give."""
        found, end = self.window(batch)
        again = self.run_end > self.cursor
        run = Run(found, self.attempt + 1 if again else 1)
        if found:
            self.base = self.cursor
        if lease is None or not found:
            self.pass_over(end)
            return run
        self.attempt = run.attempt
        self.retries = self.retries if again else 0
        self.done |= set(range(self.cursor, end)) - set(found)
        self.run_end, self.ready_at = end, 0
        self.lease, self.expires_at = lease, expires_at
        self.completed, self.failed = 0, {}
        return run

    def pass_over(self, end: int) -> None:
        self.done |= set(range(self.cursor, end))
        self.finish()

    def finish(self) -> None:
        self.run_end = self.attempt = self.retries = self.ready_at = self.completed = 0
        self.lease, self.failed = None, {}

    def seek(self, offset: int) -> None:
        self.base, self.done = offset, set()
        self.finish()

    def complete(self) -> Settled:
        """All that the lease holds is completed, but for what was reported as failed."""
        completed = [offset for offset in self.open if offset not in self.failed]
        dead = self._kept(self.failed)
        self.done |= set(self.open)
        self.finish()
        return Settled(completed, dead, released=True)

    def settle(self, reports: list[Report], *, retry_limit: int) -> Settled:
        fresh = {report.offset: report for report in reports if report.offset in self.open}
        said = {status: [o for o, r in fresh.items() if r.status == status] for status in STATUSES}
        failed = self.failed | {offset: fresh[offset].error for offset in said["failed"]}
        dead = {offset: fresh[offset].error for offset in said["dead_letter"]}
        for offset in [*said["completed"], *said["dead_letter"]]:
            failed.pop(offset, None)
        self.completed += len(said["completed"])
        if self.completed:
            dead |= failed
            failed = {}
        self.failed = failed
        self.done |= {*said["completed"], *dead}
        settled = Settled(said["completed"], dead)
        if said["retry"]:
            self.lease, self.failed = None, {}
        elif failed and set(self.open) == set(failed):
            self._fail(settled, retry_limit)
        if not self.open:
            self.finish()
        settled.dead = self._kept(settled.dead)
        settled.released = self.lease is None
        return settled

    def _kept(self, dead: dict[int, str]) -> dict[int, str]:
        """What can become dead letters: what was removed cannot."""
        return {offset: error for offset, error in dead.items() if offset >= self.log.start}

    def _fail(self, settled: Settled, retry_limit: int) -> None:
        """Everything that the lease held has failed."""
        if self.retries < retry_limit:
            settled.failed_before = self.retries
            self.retries += 1
            self.lease = None
        else:
            settled.dead |= self.failed
            self.done |= set(self.failed)
        self.failed = {}


STATUSES = ("completed", "failed", "retry", "dead_letter")
