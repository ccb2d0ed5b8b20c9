"""Latencies that are kept: every server stores each finished minute as an entry.

A server that is killed loses what it had not kept: a minute, and some seconds, at most.
"""

import logging
from collections.abc import AsyncIterator, Iterable

import msgspec

from skep.core.aio import PeriodicTask
from skep.core.log.committer import Committer
from skep.core.metrics.counters import MINUTE
from skep.core.metrics.latency_window import ByPlace, LatencyKey, LatencyWindow, Minute
from skep.core.visibility import QueueFilter
from skep.errors import SkepError
from skep.model.change import Change, EntryUpdate
from skep.model.latency import GroupLatency, Sketch, add
from skep.model.name import SECOND, Instant
from skep.store.protocol import Store

SPACE = "latencies"
KEEP = 7 * 24 * 3600 * SECOND
LOOK_SECONDS = 5.0
"""The longest time until a finished minute is stored."""
_DIGITS = 12
_PAGE = 20
_STEP = 10
"""How many entries are looked at to see which are old: mostly none is."""
_log = logging.getLogger("skep.latencies")


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a group in a queue and a minute."""

    queue: str
    group: str
    sketch: Sketch


class LatencyHistory:
    def __init__(self, store: Store, committer: Committer, latencies: LatencyWindow) -> None:
        self._store = store
        self._committer = committer
        self._latencies = latencies
        repeating = PeriodicTask(self.keep, "could not store latencies, retrying", _log)
        self.start, self.stop = repeating.start, repeating.stop

    async def keep(self) -> None:
        """Keep the minutes that are over."""
        self._latencies.begin(self._store.clock.now())
        for minute in self._latencies.over:
            await self._committer.submit(_change([minute]))
            self._latencies.kept(minute)

    async def keep_rest(self) -> None:
        """Keep what is left, the open minute too: nothing is counted any more."""
        minutes = [minute for minute in self._latencies.all if minute.by_place]
        if not minutes:
            return
        try:
            # The committer is closed: what it did last is among what is kept.
            await self._store.commit([_change(minutes)])
        except SkepError as error:
            _log.warning("could not store the latencies of the last minute: error=%s", error)

    async def sweep(self, now: Instant) -> None:
        """Remove what is older than ``KEEP``."""
        horizon = _begin(now - KEEP)
        while page := await self._store.list_entries(SPACE, limit=_STEP):
            old = [entry.key for entry in page if entry.key < horizon]
            if old:
                updates = (EntryUpdate(space=SPACE, key=key, value=None) for key in old)
                await self._committer.submit(Change(entries=tuple(updates)))
            if len(old) < _STEP:
                break

    async def between(
        self, sees: QueueFilter, start: Instant, stop: Instant, *, limit: int
    ) -> tuple[list[GroupLatency], Instant | None]:
        """What the acks of each minute say, of all servers together, and where to go on.

        By minute, queue and group. It ends with the minute in which it has ``limit`` of them. The
        other servers' open minutes are not known here.
        """
        found: list[GroupLatency] = []
        async for rows in self._minutes(sees, start // MINUTE, stop // MINUTE):
            if len(found) >= limit:
                return found, rows[0].begins_at
            found += rows
        return found, None

    async def _minutes(
        self, sees: QueueFilter, first: int, last: int
    ) -> AsyncIterator[list[GroupLatency]]:
        """The rows of each minute that has some."""
        number, whole = first, ByPlace()
        async for each, by_place in self._records(first, last):
            if each != number:
                if whole:
                    yield _rows(number, whole)
                number, whole = each, ByPlace()
            for place, sketch in by_place.items():
                if sees(place.queue):
                    add(whole.setdefault(place, {}), sketch)
        if whole:
            yield _rows(number, whole)

    async def _records(self, first: int, last: int) -> AsyncIterator[tuple[int, ByPlace]]:
        """What servers counted in minutes, in the order of time: what is stored, and our own."""
        own = {_key(minute): minute.by_place for minute in self._latencies.all}
        after, stop = _begin(first * MINUTE), _begin((last + 1) * MINUTE)
        while after < stop:
            page = await self._store.list_entries(SPACE, after=after, limit=_PAGE)
            end = min(stop, page[-1].key) if len(page) == _PAGE else stop
            stored = {entry.key: entry.value for entry in page if entry.key <= end}
            # What was kept meanwhile is there twice, under the same key.
            for key in sorted({*stored, *(key for key in own if after < key <= end)}):
                yield int(key[:_DIGITS]), _decode(stored[key]) if key in stored else own[key]
            after = end


def _rows(number: int, by_place: ByPlace) -> list[GroupLatency]:
    return [
        GroupLatency(place.queue, place.group, number * MINUTE, sketch)
        for place, sketch in sorted(by_place.items())
    ]


def _change(minutes: Iterable[Minute]) -> Change:
    return Change(
        entries=tuple(
            EntryUpdate(space=SPACE, key=_key(minute), value=_encode(minute.by_place))
            for minute in minutes
        )
    )


def _key(minute: Minute) -> str:
    return f"{_begin(minute.number * MINUTE)}-{minute.id}"


def _begin(instant: Instant) -> str:
    """What comes before all keys of a minute, and behind those of earlier ones."""
    return f"{instant // MINUTE:0{_DIGITS}}"


def _encode(by_place: ByPlace) -> bytes:
    return msgspec.msgpack.encode([_Record(*place, sketch) for place, sketch in by_place.items()])


def _decode(value: bytes) -> ByPlace:
    records = msgspec.msgpack.decode(value, type=list[_Record])
    return {LatencyKey(record.queue, record.group): record.sketch for record in records}
