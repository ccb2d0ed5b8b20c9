"""The rows that a commit must read to evaluate its changes, and no others."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from skep.errors import Invalid
from skep.model.address import address_of
from skep.model.change import Append, Change, EntryVersion
from skep.model.name import MAX_NUMBER, Offset
from skep.store.postgres.nul_text import hash_of

Message = tuple[int, Offset]
Place = tuple[str, str]


class Needs:
    def __init__(self, changes: Sequence[Change]) -> None:
        self.partitions: set[int] = set()
        """Partitions that get messages or trace events; locked against truncation."""
        self.places: set[tuple[int, str, int]] = set()
        self.hashes: dict[int, dict[str, bytes]] = {}
        """The hashes of producer-chosen ids, by partition and id."""
        self.replays = False
        """Whether a replayed dead letter may take over the id of an earlier message."""
        self.messages: set[Message] = set()
        """Messages whose segments must be read."""
        self.given_up: set[tuple[int, Offset, str]] = set()
        self.letters: set[tuple[int, int]] = set()
        self.keys: set[str] = set()
        self.entries: set[Place] = set()
        """All entries that are written, if one of them must have a certain version."""
        self.queues: set[int] = set()
        """Queues whose configuration must be of a certain version."""
        self.based_on: set[EntryVersion] = set()
        """Entries that are only compared."""
        self.capacity: set[int] = set()
        """Queues whose message totals must be known."""
        self.outbox: set[int] = set()
        self.numbers = 0
        for change in changes:
            self._add(change)
        if any(update.expected is not None for change in changes for update in change.entries):
            self.entries = {(each.space, each.key) for one in changes for each in one.entries}

    def _add(self, change: Change) -> None:
        for append in change.appends:
            self._add_append(append)
        for update in change.consumers:
            self.places.add((update.queue, update.group, update.partition))
        for letter in change.dead_letters:
            self.messages.add((letter.partition, letter.offset))
            self.given_up.add((letter.partition, letter.offset, letter.group))
        for event in change.traces:
            self.partitions.add(event.partition)
            self.messages.add((event.partition, event.offset))
        self.letters.update((removal.queue, removal.number) for removal in change.removals)
        self.outbox.update(change.outbox)
        self.queues.update(basis.queue for basis in change.queues)
        self.based_on.update(change.based_on)
        self.capacity.update(capacity.queue for capacity in change.capacity)
        if change.key:
            self.keys.add(change.key.name)
        self.numbers += len(change.dead_letters) + len(change.traces) + len(change.entries)

    def _add_append(self, append: Append) -> None:
        self.partitions.add(append.partition)
        if append.columns.transaction_ids is None:
            return
        hashes = self.hashes.setdefault(append.partition, {})
        for chosen in append.columns.transaction_ids:
            if chosen is not None and chosen not in hashes:
                hashes[chosen] = hash_of(chosen)
        self.replays |= append.replay
        if not append.replay:
            self.messages.update(_derived(append.partition, hashes))


def _derived(partition: int, ids: dict[str, bytes]) -> Iterator[Message]:
    """The messages of this partition whose message ids are among the producer-chosen ids."""
    for chosen in ids:
        if len(chosen) == 36 and chosen[14] == "8":
            try:
                number, offset = address_of(UUID(chosen))
            except (ValueError, Invalid):
                continue
            if number == partition and offset <= MAX_NUMBER:
                yield number, offset
