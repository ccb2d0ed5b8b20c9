"""Dead letters, trace events, outcomes, entries and removals in dictionaries."""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice, takewhile

from skep.model.change import GiveUp, IdempotencyKey, Outcome
from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.entry import Entry
from skep.model.name import Instant, Offset
from skep.model.queue import Removal
from skep.model.trace import TraceEvent, TraceName
from skep.store.commit.evaluation import CommitRound, RecordedOutcome
from skep.store.protocol import GivenUp


class MemoryDeadLetterTable:
    def __init__(self) -> None:
        self._by_queue: dict[int, dict[int, DeadLetter]] = {}

    def apply(self, round_: CommitRound) -> None:
        for queue, number in (*round_.removed, *round_.replaced):
            self._by_queue[queue].pop(number, None)
        for letter in round_.dead_letters.values():
            self._by_queue[letter.queue][letter.number] = letter

    def create_queue(self, queue: int) -> None:
        self._by_queue[queue] = {}

    def delete_queue(self, queue: int) -> None:
        self._by_queue.pop(queue, None)

    def dead_letter(self, queue: int, number: int) -> DeadLetter | None:
        return self._by_queue.get(queue, {}).get(number)

    def letter_of(self, letter: GiveUp) -> int | None:
        message = letter.partition, letter.offset, letter.group
        for stored in self._by_queue.get(letter.queue, {}).values():
            if (stored.partition, stored.offset, stored.group) == message:
                return stored.number
        return None

    def count(self) -> int:
        return sum(map(len, self._by_queue.values()))

    async def dead_letters(
        self, which: DeadLetterFilter, *, before: int | None = None, limit: int
    ) -> list[DeadLetter]:
        newest_first = sorted(self._matching(which), key=lambda letter: -letter.number)
        older = (x for x in newest_first if before is None or x.number < before)
        return list(islice(older, limit))

    async def count_dead_letters(self, which: DeadLetterFilter) -> int:
        return sum(1 for _ in self._matching(which))

    async def find_dead_letter(self, queue: int, number: int) -> DeadLetter | None:
        return self.dead_letter(queue, number)

    async def given_up(self, partition: int, start: Offset, stop: Offset) -> list[GivenUp]:
        return sorted(
            GivenUp(letter.offset, letter.group, letter.number)
            for letters in self._by_queue.values()
            for letter in letters.values()
            if letter.partition == partition and start <= letter.offset < stop
        )

    def _matching(self, which: DeadLetterFilter) -> Iterator[DeadLetter]:
        return filter(which.matches, self._by_queue.get(which.queue, {}).values())


class MemoryTraceTable:
    def __init__(self) -> None:
        self._events: list[TraceEvent] = []
        self._deleted: set[int] = set()
        """Partitions of deleted queues whose events are not purged yet."""

    def add(self, events: Iterable[TraceEvent]) -> None:
        self._events += events

    def hide(self, partitions: Iterable[int]) -> None:
        """Leave the events of deleted partitions out of searches."""
        self._deleted.update(partitions)

    def purge(self, partitions: Collection[int]) -> None:
        self._events = [event for event in self._events if event.partition not in partitions]
        self._deleted.difference_update(partitions)

    def delete(self, partition: int, start: Offset, stop: Offset) -> None:
        self._events = [
            event
            for event in self._events
            if event.partition != partition or not start <= event.offset < stop
        ]

    async def trace_events(self, partition: int, offset: Offset) -> list[TraceEvent]:
        return [e for e in self._events if e.partition == partition and e.offset == offset]

    async def named_events(
        self, name: str, *, before: int | None = None, limit: int
    ) -> list[TraceEvent]:
        newest_first = (
            event
            for event in reversed(self._events)
            if name in event.names
            and event.partition not in self._deleted
            and (before is None or event.number < before)
        )
        return list(islice(newest_first, limit))

    async def trace_names(self, *, after: str = "", limit: int) -> list[TraceName]:
        by_name: dict[str, list[TraceEvent]] = {}
        for event in self._events:
            if event.partition not in self._deleted:
                for name in set(event.names):
                    by_name.setdefault(name, []).append(event)
        return [
            TraceName(
                name=name,
                events=len(events),
                messages=len({(event.partition, event.offset) for event in events}),
                last_seen_at=max(event.created_at for event in events),
            )
            for name, events in sorted(by_name.items(), key=lambda pair: pair[0].encode())
            if name.encode() > after.encode()
        ][:limit]


class MemoryIdempotencyTable:
    def __init__(self) -> None:
        self._outcomes: dict[str, RecordedOutcome] = {}

    def apply(self, round_: CommitRound) -> None:
        self._outcomes |= round_.recorded

    def recorded(self, key: str) -> RecordedOutcome | None:
        return self._outcomes.get(key)

    async def find_outcome(self, key: IdempotencyKey) -> Outcome | None:
        recorded = self._outcomes.get(key.name)
        return recorded.answer(key) if recorded else None

    async def forget_outcomes(self, before: Instant, *, limit: int) -> int:
        old = [key for key, kept in self._outcomes.items() if kept.created_at < before][:limit]
        for key in old:
            del self._outcomes[key]
        return len(old)


class MemoryEntryTable:
    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}

    def apply(self, round_: CommitRound) -> None:
        for place, entry in round_.entries.items():
            if entry is None:
                self._entries.pop(place, None)
            else:
                self._entries[place] = entry

    def entry_version(self, space: str, key: str) -> int:
        entry = self._entries.get((space, key))
        return entry.version if entry else 0

    def find(self, space: str, keys: Iterable[str]) -> list[Entry]:
        return [entry for key in keys if (entry := self._entries.get((space, key)))]

    def list(self, space: str, *, prefix: str, after: str) -> list[Entry]:
        """The entries in the order of their keys' bytes, as in the other stores."""
        by_key = sorted(
            (entry.key.encode(), entry)
            for place, entry in self._entries.items()
            if place[0] == space and entry.key.startswith(prefix)
        )
        return [entry for key, entry in by_key if key > after.encode()]


class MemoryRemovalTable:
    """The retention history by queue, oldest first."""

    def __init__(self) -> None:
        self._by_queue: dict[int, list[Removal]] = {}

    def create_queue(self, queue: int) -> None:
        self._by_queue[queue] = []

    def delete_queue(self, queue: int) -> None:
        self._by_queue.pop(queue, None)

    async def removals(self, queue: int, *, limit: int) -> list[Removal]:
        return self._by_queue.get(queue, [])[::-1][:limit]

    async def record_removal(self, removal: Removal) -> None:
        if removal.queue in self._by_queue:
            self._by_queue[removal.queue].append(removal)

    async def forget_removals(self, queue: int, before: Instant, *, limit: int) -> int:
        removals = self._by_queue.get(queue, [])
        old = sum(1 for _ in takewhile(lambda line: line.executed_at < before, removals[:limit]))
        del removals[:old]
        return old
