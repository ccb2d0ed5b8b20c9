"""Events that a server publishes to the other servers of its store."""

from typing import NamedTuple

import msgspec

from skep.model.consumer import ConsumerState
from skep.model.name import Instant, Offset
from skep.model.queue import Partition


class PartitionAppended(msgspec.Struct, frozen=True, array_like=True):
    """Messages from ``start`` up to ``end`` were appended to a partition at ``newest_at``.

    Events of earlier versions have no ``start``.
    """

    partition: int
    end: Offset
    newest_at: Instant
    start: Offset | None = None


class PartitionTruncated(msgspec.Struct, frozen=True, array_like=True):
    """A partition now begins at ``start``, with a message of ``first_at``."""

    partition: int
    start: Offset
    first_at: Instant


class ConsumerUpdated(msgspec.Struct, frozen=True, array_like=True):
    """A group's state was replaced, by the holder of its lease if ``own``.

    Events of earlier versions have no ``queue``.
    """

    partition: int
    group: str
    subscription: str
    state: ConsumerState
    own: bool
    queue: int = 0


class CommitEffects(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    # The keys that earlier versions of the server read and write.
    rename={
        "created": "born",
        "appended": "grown",
        "consumers": "moved",
        "truncated": "cut",
        "redacted": "blanked",
        "dead_letters": "letters",
    },
):
    """What one commit, or one change of the catalogue, did.

    ``queues`` are those whose configuration, groups or existence changed; ``redacted`` are
    partitions with redacted messages; ``spaces`` those whose entries changed; ``dead_letters``
    queues whose dead letters changed.
    """

    queues: tuple[int, ...] = ()
    created: tuple[Partition, ...] = ()
    appended: tuple[PartitionAppended, ...] = ()
    consumers: tuple[ConsumerUpdated, ...] = ()
    truncated: tuple[PartitionTruncated, ...] = ()
    redacted: tuple[int, ...] = ()
    spaces: tuple[str, ...] = ()
    dead_letters: tuple[int, ...] = ()


class PeerEvent(NamedTuple):
    """What a commit on a lane did; numbers are 1, 2, 3 … without gaps, in commit order."""

    lane: int
    number: int
    effects: CommitEffects
