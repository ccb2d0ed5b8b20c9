"""A queue as a few dictionaries: what the broker is compared with.

Written from the rules of the design, without a look at how the broker follows them. It knows no
bytes on disk, no versions, no caches and no scheduling.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tests.machine.model_consumer import SECOND, ModelConsumer, Report, Run, Settled
from tests.machine.model_partition import Entry, Log

DAY = 24 * 3600 * SECOND

Reports: TypeAlias = Mapping[str, list[Report]] | None
"""By partition; None for: all that the lease holds is completed."""


class Lost(Exception):
    """The lease is not held, or not all of what is spoken of."""


class Letter(NamedTuple):
    payload: bytes
    chosen_id: str | None
    error: str
    attempts: int


class Put(NamedTuple):
    """A message to push."""

    partition: str
    payload: bytes
    chosen_id: str | None


class Got(NamedTuple):
    """Where a message that was pushed is."""

    partition: str
    offset: int
    duplicate: bool


class Once(NamedTuple):
    """A transaction that has an idempotency key."""

    asked: object
    got: list[Got]
    at: int


@dataclass(frozen=True)
class Rules:
    lease_time: int
    retry_limit: int
    retry_delay: int
    retention_seconds: int
    completed_retention_seconds: int


class Model:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.logs: dict[str, Log] = {}
        self.groups: dict[str, dict[str, ModelConsumer]] = {}
        self.letters: dict[tuple[str, str, int], Letter] = {}
        self.once: dict[str, Once] = {}
        self.broken: set[str] = set()
        """Leases of which a part was taken or ended by somebody else."""
        self.settled: dict[str, set[str]] = {}
        """The partitions that a lease held until it settled them."""

    def restart(self) -> None:
        """What the broker knows of leases besides what it has stored is forgotten."""
        self.broken.clear()
        self.settled.clear()

    def place(self, group: str, partition: str) -> ModelConsumer:
        places = self.groups[group]
        if partition not in places:
            places[partition] = ModelConsumer(self.logs[partition])
        return places[partition]

    def places(self, group: str) -> dict[str, ModelConsumer]:
        return {partition: self.place(group, partition) for partition in self.logs}

    @property
    def waiting(self) -> int:
        """The messages that are kept, and that no group is done with."""
        return sum(
            min((self.place(group, name).backlog for group in self.groups), default=log.end)
            for name, log in self.logs.items()
        )

    # Pushing.

    def push(self, puts: Sequence[Put], now: int) -> list[Got]:
        got: dict[int, Got] = {}
        for partition in dict.fromkeys(put.partition for put in puts):
            mine = [index for index, put in enumerate(puts) if put.partition == partition]
            entries = [Entry(puts[i].payload, puts[i].chosen_id, now) for i in mine]
            places = self.logs.setdefault(partition, Log()).append(entries)
            for index, (offset, duplicate) in zip(mine, places, strict=True):
                got[index] = Got(partition, offset, duplicate)
        return [got[index] for index in range(len(puts))]

    # Popping.

    def contact(self, group: str, mode: str) -> None:
        """The first pop of a group decides where it starts."""
        if group in self.groups:
            return
        self.groups[group] = {}
        if mode == "new":
            for partition, log in self.logs.items():
                self.place(group, partition).seek(log.end)

    def take(
        self, group: str, partition: str, batch: int, *, lease: str | None, expires_at: int
    ) -> Run:
        """What a pop gets from a partition that is ready."""
        place = self.place(group, partition)
        self._break(place)
        run = Run([], 0)
        # What was deleted is passed over without a delivery.
        while not run.offsets and place.cursor < place.log.end:
            run = place.take(batch, lease=lease, expires_at=expires_at)
        return run

    def pass_over(self, group: str, partition: str, end: int) -> None:
        """What lies before ``end`` was deleted: nobody gets it."""
        self._break(self.place(group, partition))
        self.place(group, partition).pass_over(end)

    def held(self, lease: str, now: int) -> dict[str, tuple[str, ModelConsumer]]:
        """The places that a lease holds, with their group, by partition."""
        return {
            partition: (group, place)
            for group, places in self.groups.items()
            for partition, place in places.items()
            if place.lease == lease and place.is_leased(now)
        }

    # Settling.

    def check_lease(self, lease: str, reports: Reports, now: int) -> None:
        """A lease that is spoken of as a whole must be whole."""
        known = self.held(lease, now).keys() | self.settled.get(lease, set())
        if not self.held(lease, now) or any(partition not in known for partition in reports or ()):
            raise Lost
        if reports is None and lease in self.broken:
            raise Lost

    def settle(self, lease: str, reports: Reports, now: int) -> dict[str, Settled]:
        """What became of each partition spoken of."""
        self.check_lease(lease, reports, now)
        held = self.held(lease, now)
        settled: dict[str, Settled] = {}
        for partition in held if reports is None else held.keys() & reports.keys():
            group, place = held[partition]
            attempts = place.attempt
            if reports is None:
                settled[partition] = place.complete()
            else:
                settled[partition] = place.settle(
                    reports[partition], retry_limit=self.rules.retry_limit
                )
            self._give_up(group, partition, settled[partition].dead, attempts)
            if settled[partition].released:
                self.settled.setdefault(lease, set()).add(partition)
        return settled

    def extend(self, lease: str, seconds: int, now: int) -> int:
        self.check_lease(lease, None, now)
        places = [place for _, place in self.held(lease, now).values()]
        for place in places:
            place.expires_at = max(place.expires_at, now + seconds * SECOND)
        return min(place.expires_at for place in places)

    # Moving and removing.

    def seek(self, group: str, partitions: Iterable[str], to: str | int) -> None:
        for partition in partitions:
            log = self.logs[partition]
            self._break(self.place(group, partition))
            named = {"beginning": log.start, "end": log.end}
            self.place(group, partition).seek(to if isinstance(to, int) else named[to])

    def delete_group(self, group: str) -> None:
        for place in self.groups.pop(group).values():
            self._break(place)

    def sweep(self, now: int, cursors: Mapping[str, list[int]]) -> int:
        """``cursors`` are those that the groups have in each partition, for what is consumed."""
        removed = sum(self._retain(name, now, cursors[name]) for name in self.logs)
        self.once = {key: once for key, once in self.once.items() if once.at >= now - DAY}
        return removed

    def clear(self, partitions: Iterable[str]) -> int:
        return sum(self._truncate(name, self.logs[name].end) for name in partitions)

    def replay(self, letter: tuple[str, str, int], chosen_id: str, now: int) -> Got:
        """Put a dead letter back at the end of its partition, under the id that it had."""
        _, partition, _ = letter
        entry = Entry(self.letters.pop(letter).payload, chosen_id, now)
        ((offset, _),) = self.logs[partition].append([entry], replay=True)
        return Got(partition, offset, False)

    def _break(self, place: ModelConsumer) -> None:
        if place.lease:
            self.broken.add(place.lease)

    def _retain(self, partition: str, now: int, cursors: list[int]) -> int:
        log, rules = self.logs[partition], self.rules
        removed = 0
        if rules.retention_seconds:
            before = log.offset_at(now - rules.retention_seconds * SECOND)
            removed += self._truncate(partition, before)
        if rules.completed_retention_seconds and cursors:
            before = log.offset_at(now - rules.completed_retention_seconds * SECOND)
            removed += self._truncate(partition, min([before, *cursors]))
        return removed

    def _truncate(self, partition: str, before: int) -> int:
        for group in self.groups:
            self.place(group, partition)
        return self.logs[partition].truncate(before)

    def _give_up(self, group: str, partition: str, dead: dict[int, str], attempts: int) -> None:
        kept = self.logs[partition].kept
        for offset, error in dead.items():
            if offset in kept:
                entry = kept[offset]
                self.letters[group, partition, offset] = Letter(
                    entry.payload, entry.chosen_id, error, attempts
                )
