"""What a commit has read and locked, as a ``CommitView``."""

from collections.abc import Iterator, Sequence

from skep.errors import Corrupted
from skep.model.change import GiveUp
from skep.model.consumer import ConsumerState
from skep.model.dead_letter import DeadLetter
from skep.model.name import Instant, Offset
from skep.model.queue import Partition, Subscription
from skep.model.segment import Segment
from skep.store.commit.evaluation import RecordedOutcome
from skep.store.postgres.commit.needs import Needs


class CommitSnapshot:
    """A view for ``evaluate``, filled before, because a round does not wait for a database."""

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.now: Instant = 0
        """The latest time that the database returned while it granted locks."""
        self.partitions: dict[tuple[int, int], Partition] = {}
        self.queue_versions: dict[int, int] = {}
        self.heads: dict[int, int] = {}
        self.totals: dict[int, int] = {}
        self.subscriptions: dict[tuple[int, str], Subscription] = {}
        self.consumers: dict[tuple[int, int, str], ConsumerState] = {}
        self.offsets: dict[tuple[int, bytes], Offset] = {}
        self.segments: dict[int, list[Segment]] = {}
        self.damaged: dict[int, list[tuple[Offset, Offset, Corrupted]]] = {}
        self.dead_letters: dict[tuple[int, int], DeadLetter] = {}
        self.letters_of: dict[tuple[int, Offset, str], int] = {}
        self.outcomes: dict[str, RecordedOutcome] = {}
        self.entries: dict[tuple[str, str], int] = {}
        """The versions of existing entries."""
        self.outbox: set[int] = set()
        self.numbers: Iterator[int] = iter(())

    def queue_version(self, queue: int) -> int | None:
        return self.queue_versions.get(queue)

    def partition(self, queue: int, partition: int) -> Partition | None:
        return self.partitions.get((queue, partition))

    def subscription(self, queue: int, group: str) -> Subscription | None:
        return self.subscriptions.get((queue, group))

    def consumer(self, queue: int, partition: int, group: str) -> ConsumerState | None:
        return self.consumers.get((queue, partition, group))

    def find_offsets(self, partition: int, ids: Sequence[str]) -> list[Offset | None]:
        hashes = self.needs.hashes[partition]
        return [self.offsets.get((partition, hashes[chosen])) for chosen in ids]

    def segment(self, partition: int, offset: Offset) -> Segment | None:
        for start, end, error in self.damaged.get(partition, ()):
            if start <= offset < end:
                raise error
        found = self.segments.get(partition, ())
        return next((each for each in found if each.start <= offset < each.end), None)

    def dead_letter(self, queue: int, number: int) -> DeadLetter | None:
        return self.dead_letters.get((queue, number))

    def letter_of(self, letter: GiveUp) -> int | None:
        return self.letters_of.get((letter.partition, letter.offset, letter.group))

    def recorded(self, key: str) -> RecordedOutcome | None:
        return self.outcomes.get(key)

    def entry_version(self, space: str, key: str) -> int:
        return self.entries.get((space, key), 0)

    def is_enqueued(self, number: int) -> bool:
        return number in self.outbox

    def head(self, queue: int) -> int:
        return self.heads[queue]

    def pushed(self, queue: int) -> int:
        return self.totals.get(queue, 0)

    def next_number(self) -> int:
        return next(self.numbers)
