"""Appending what applications pushed in their own transactions.

Rows of the outbox are read in the order of their numbers, as far as they are committed, appended as
any push is, and deleted by the commit that appends them. If that fails they are still there; if
another server was faster they are deleted, and the change is refused. So each is appended once,
also if a server crashes; one server at a time does it only to spare the others the work.
"""

import asyncio
import logging
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from skep.core.aio import log_failure
from skep.core.cluster.maintenance_mode import MaintenanceMode
from skep.core.limits import Limits
from skep.core.produce.push import Pusher
from skep.core.produce.push_batch import PushBatch
from skep.errors import Invalid, QueueFull, SkepError
from skep.model.change import Applied
from skep.model.message import Draft
from skep.model.outbox import OutboxRow
from skep.store.protocol import Store

ROWS, BYTES = 500, 4 << 20
"""What is read at once."""
BUSY_SECONDS, IDLE_SECONDS = 0.05, 0.25
HOLD_SECONDS = 0.5
"""How long a queue is left alone that takes nothing at present."""
DUTY_SECONDS, ASK_SECONDS = 5.0, 1.0
"""For how long a server has the duty, and how often it is asked for or kept."""

_DUTY = "outbox"
_log = logging.getLogger("skep.outbox")


class _Held(NamedTuple):
    """Until when a queue is left alone, and why."""

    until: float
    reason: str


class Outbox:
    def __init__(self, store: Store, pusher: Pusher, mode: MaintenanceMode, limits: Limits) -> None:
        self._store = store
        self._pusher = pusher
        self._mode = mode
        self._limits = limits
        self._held: dict[str, _Held] = {}
        self._has_duty = False
        self._ask_at = 0.0
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._store.shared:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Read no more, and finish what is under way: no statement is broken off."""
        self._stopping.set()
        if self._task:
            await asyncio.wait([self._task])
        if self._has_duty:
            try:
                # The others need not wait until it runs out.
                await self._store.acquire_leadership(_DUTY, 0)
            except SkepError as error:
                _log.warning(
                    "could not release the outbox leadership, it expires later: error=%s", error
                )

    async def _run(self) -> None:
        pause, failed = BUSY_SECONDS, False
        while not self._stopping.is_set():
            moved = 0
            try:
                if await self._on_duty() and not self._mode.buffers:
                    moved = await self._move()
                failed = False
            except Exception as error:
                if not failed:
                    log_failure(_log, "could not read the outbox, retrying", error)
                failed = True
            pause = BUSY_SECONDS if moved else min(2 * pause, IDLE_SECONDS)
            await self._sleep(0 if moved >= ROWS else pause)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _on_duty(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now >= self._ask_at:
            self._has_duty = await self._store.acquire_leadership(_DUTY, DUTY_SECONDS)
            self._ask_at = now + ASK_SECONDS
        return self._has_duty

    async def _move(self) -> int:
        """Append what is there; returns how many rows left the outbox."""
        now = asyncio.get_running_loop().time()
        rows = await self._store.outbox_rows(
            limit=min(ROWS, self._limits.push_messages),
            size=BYTES,
            payload_bytes=self._limits.payload_bytes,
            without=[queue for queue, held in self._held.items() if held.until > now],
        )
        good = [row for row in rows if not await self._refuse(row)]
        # Sorting keeps the order of those that are equal.
        by_queue = groupby(sorted(good, key=attrgetter("queue")), key=attrgetter("queue"))
        moved = await asyncio.gather(*[self._append(name, list(some)) for name, some in by_queue])
        return sum(moved)

    async def _refuse(self, row: OutboxRow) -> bool:
        """Reject a row that no broker accepts, so that it does not block those behind it."""
        reason = self._refusal(row)
        if reason is None:
            return False
        _log.warning("rejected an outbox row: number=%d reason=%s", row.number, reason)
        await self._store.reject_outbox_row(row.number, reason)
        return True

    def _refusal(self, row: OutboxRow) -> str | None:
        if row.payload is None:
            most = self._limits.payload_bytes
            return f"payload: is {row.size} bytes long, at most {most} are allowed"
        try:
            PushBatch(row.queue, [_draft(row)], self._limits)
        except Invalid as error:
            return str(error)
        return None

    async def _append(self, queue: str, rows: Sequence[OutboxRow]) -> int:
        """Append rows of one queue, or as many of the first as there is room for."""
        try:
            while rows:
                try:
                    return await self._append_all(queue, rows)
                except QueueFull as full:
                    # One at least: it needs no room if it is there already.
                    room = max(1, full.capacity - full.depth)
                    rows = rows[: room if room < len(rows) else len(rows) // 2]
            self._hold(queue, None)
        except Exception as error:
            self._hold(queue, error)
        return 0

    def _hold(self, queue: str, error: Exception | None) -> None:
        """Leave a queue alone for a while; that one is full is nothing to report."""
        before, reason = self._held.get(queue), str(error)
        if error is not None and (before is None or before.reason != reason):
            log_failure(_log, "could not append outbox rows, retrying", error, queue=queue)
        until = asyncio.get_running_loop().time() + HOLD_SECONDS
        self._held[queue] = _Held(until, reason)

    async def _append_all(self, queue: str, rows: Sequence[OutboxRow]) -> int:
        batch = PushBatch(queue, list(map(_draft, rows)), self._limits)
        numbers = tuple([row.number for row in rows])
        outcome = await self._pusher.attempt(batch, None, outbox=numbers)
        self._held.pop(queue, None)
        # Else another server was faster, or the queue was just deleted: what is left is read again.
        return len(rows) if isinstance(outcome, Applied) else 0


def _draft(row: OutboxRow) -> Draft:
    return Draft(row.payload or b"", row.partition, row.transaction_id)
