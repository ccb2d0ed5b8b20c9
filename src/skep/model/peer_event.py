"""What a server tells the others that share its store: what it changed of what all of them know."""

from typing import NamedTuple

import msgspec

from skep.model.consumer import ConsumerState
from skep.model.name import Instant, Offset
from skep.model.queue import Partition


class Grown(msgspec.Struct, frozen=True, array_like=True):
    """Messages were appended to a partition, up to ``end``, at ``newest_at``.

    They begin at ``start``. An event of a server before that was told does not say it.
    """

    partition: int
    end: Offset
    newest_at: Instant
    start: Offset | None = None


class Cut(msgspec.Struct, frozen=True, array_like=True):
    """What lay before ``start`` was removed from a partition; its oldest is now ``first_at``."""

    partition: int
    start: Offset
    first_at: Instant


class ConsumerUpdated(msgspec.Struct, frozen=True, array_like=True):
    """A group's state was replaced, by its lease's ``own`` holder or by somebody else.

    An event of a server before that was told does not name the ``queue``.
    """

    partition: int
    group: str
    subscription: str
    state: ConsumerState
    own: bool
    queue: int = 0


class Happened(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one commit, or one change of the catalogue, did.

    ``queues`` are those whose configuration, groups or existence changed; ``blanked`` are
    partitions of which single messages were removed; ``spaces`` those whose entries changed;
    ``letters`` queues whose dead letters changed.
    """

    queues: tuple[int, ...] = ()
    born: tuple[Partition, ...] = ()
    grown: tuple[Grown, ...] = ()
    moved: tuple[ConsumerUpdated, ...] = ()
    cut: tuple[Cut, ...] = ()
    blanked: tuple[int, ...] = ()
    spaces: tuple[str, ...] = ()
    letters: tuple[int, ...] = ()


class News(NamedTuple):
    """What happened on a lane; its numbers are 1, 2, 3 … without gaps, in commit order."""

    lane: int
    number: int
    happened: Happened
