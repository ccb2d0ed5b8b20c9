"""What a group's state in a partition is made of."""

import os
from random import Random
from typing import NamedTuple

import msgspec

from skep.model.name import Instant, LeaseId, Offset
from skep.model.ranges import Ranges


class Lease(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The right of one consumer to the run of its partition, until ``expires_at``.

    ``completed`` counts what was acknowledged under this lease: it tells a batch that
    failed as a whole from one that failed in part. No message behind the run is older
    than ``next_at``.
    """

    id: LeaseId
    granted_at: Instant
    expires_at: Instant
    next_at: Instant = 0
    completed: int = 0


class Failure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message reported as failed while the fate of its batch is still open."""

    offset: Offset
    error: str


class Revision(NamedTuple):
    """Names one write of a group's state: no two writes have the same, whoever made them.

    Versions order the writes. Two writers may build the same next version on one state, so a
    version alone does not say whose it is: the token, drawn at random, does.
    """

    version: int
    token: int


_random = Random()
# Processes that were forked must not draw the same numbers.
os.register_at_fork(after_in_child=_random.seed)


def new_token() -> int:
    return _random.getrandbits(63)


class ConsumerState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A group's state in one partition: the unit of compare-and-set.

    The *run* is ``[cursor, run_end)``: what was delivered and is not done. A run that
    comes back, because its lease expired or because it failed, comes back with the same
    end, so that ``attempt`` and ``retries`` always speak of the same messages.
    """

    version: int = 0
    """Counts the writes; 0 means that there is no row yet."""
    cursor: Offset = 0
    """The next offset that is not done. It moves back by seek only."""
    acked: Ranges = ()
    """What is done beyond the cursor."""
    run_end: Offset = 0
    attempt: int = 0
    """How often the run was delivered."""
    retries: int = 0
    """How often the run failed as a whole."""
    ready_at: Instant = 0
    """Not to be delivered before this instant (retry delay)."""
    oldest_at: Instant = 0
    """No message at or beyond the cursor is older than this; exact once it was read."""
    lease: Lease | None = None
    failed: tuple[Failure, ...] = ()
    messages_consumed: int = 0
    batches_consumed: int = 0
    last_consumed_at: Instant = 0
    token: int = 0
    """Drawn for each write; see ``Revision``."""

    @property
    def revision(self) -> Revision:
        return Revision(self.version, self.token)

    def live_lease(self, now: Instant) -> Lease | None:
        """The lease, unless it has run out."""
        return self.lease if self.lease is not None and self.lease.expires_at > now else None

    @property
    def comes_again(self) -> bool:
        """Whether there is a run: what is delivered next was delivered before."""
        return self.run_end > self.cursor

    @property
    def next_attempt(self) -> int:
        return self.attempt + 1 if self.comes_again else 1
