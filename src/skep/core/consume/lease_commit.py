"""Commits the leases of a delivery in one change."""

import asyncio
import logging
from collections.abc import Sequence

from skep.core.cluster.maintenance_mode import NORMAL_POP
from skep.core.consume.partition_lease import PartitionLease
from skep.core.log.committer import Committer
from skep.core.rules import lease as leases
from skep.core.state.lease_table import LeaseTable
from skep.core.state.queue_state import QueueState
from skep.errors import LeaseLost, SkepError
from skep.model.change import Applied, Change, Outcome, QueueVersion
from skep.model.name import RESERVED, LeaseId

_log = logging.getLogger("skep.broker")


class LeaseCommitter:
    def __init__(self, committer: Committer, lease_table: LeaseTable) -> None:
        self._committer = committer
        self._lease_table = lease_table

    async def commit(self, prepared: Sequence[PartitionLease], lease_id: LeaseId) -> bool:
        """Whether the leases were granted; False if a partition has changed meanwhile."""
        queue = prepared[0].group.queue
        submitted = self._committer.submit(
            Change(
                consumers=tuple([lease.update for lease in prepared]),
                queues=_versions(queue, prepared),
                based_on=() if is_reserved(queue) else NORMAL_POP,
            )
        )
        try:
            outcome = await asyncio.shield(submitted)
        except asyncio.CancelledError:
            # The caller has gone: the lease must not outlive the request.
            submitted.add_done_callback(lambda _: self._give_back(lease_id))
            raise
        if not isinstance(outcome, Applied):
            return False
        for lease in prepared:
            self._lease_table.set_ages(lease_id, (lease.group, lease.partition), lease.ages)
        return True

    def _give_back(self, lease_id: LeaseId) -> None:
        try:
            held = self._lease_table.live(lease_id)
            updates = tuple(g.update(p, leases.release(g.stored(p))) for g, p in held)
            self._committer.submit(Change(consumers=updates)).add_done_callback(_ignore)
        except LeaseLost:
            pass
        except SkepError as error:
            _log.warning(
                "could not release an undelivered lease, it expires later: error=%s", error
            )


def is_reserved(queue: QueueState) -> bool:
    """Whether a queue is one of our own, whose pops are never paused."""
    return queue.config.name.startswith(RESERVED)


def _versions(queue: QueueState, prepared: Sequence[PartitionLease]) -> tuple[QueueVersion, ...]:
    if any(lease.group.queue is not queue for lease in prepared):
        return tuple({lease.group.queue.versions[0] for lease in prepared})
    return queue.versions


def _ignore(outcome: asyncio.Future[Outcome]) -> None:
    """Retrieve the result of a release; if it failed, the lease expires."""
    if not outcome.cancelled():
        outcome.exception()
