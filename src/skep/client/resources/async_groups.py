"""Groups on a server: where they are, and moving them.

The source of ``sync_groups.py``, which ``make sync`` writes.
"""

from collections.abc import Sequence
from datetime import datetime

from skep.client.async_connection import AsyncConnection
from skep.client.request import PAGE, delete, post, read
from skep.errors import GroupNotFound, Invalid, NotFound
from skep.model.name import check_label, check_name, from_datetime
from skep.model.stats import GroupLag, LaneLag, PartitionLag
from skep.wire import paths
from skep.wire.admin.group import (
    DeletedGroup,
    GroupQueue,
    GroupRow,
    Resubscribed,
    Sought,
    SoughtPartition,
    SubscriptionBody,
    Target,
    from_target,
    to_group_lag,
    to_lane_lag,
    to_partition_lag,
)


class AsyncGroups:
    """What ``Broker.groups`` has, over HTTP."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def seek(
        self, queue: str, group: str, to: Target, *, partition: str | None = None
    ) -> int:
        """Move a group's cursors to the ``beginning``, the ``end``, an offset or a datetime.

        Returns in how many partitions. Leases end, acks beyond the cursor are forgotten.
        """
        check_name("queue", queue)
        check_label("partition", partition)
        path = paths.seek(check_name("group", group), queue, partition)
        try:
            answer = await self._connection.send(post(path, from_target(to), repeatable=False))
        except Invalid as error:
            # The wire has four fields for what is one argument here.
            raise Invalid("to", error.reason) from None
        if partition is None:
            return answer.decode(Sought).partitions_updated
        return int(answer.decode(SoughtPartition).updated)

    async def restart(self, queue: str, group: str) -> int:
        """Move a group back to where it started in a queue; return in how many partitions."""
        check_name("queue", queue)
        path = paths.group_in_queue(check_name("group", group), queue)
        answer = await self._connection.send(delete(path, deleteMetadata=False))
        moved = answer.decode(DeletedGroup).deleted_partitions
        if not moved:
            # Because there is no partition, or because there is no group?
            await self._in_queue(queue, group, 0)
        return moved

    async def resubscribe(self, queue: str, group: str, start: datetime) -> int:
        """Let a group start at an instant wherever it has not read anything yet.

        Returns in how many partitions that is so. Where it has read it goes on from its cursor,
        and the record of its first contact with the queue stays as it is.
        """
        from_datetime("to", start)
        path = paths.subscription(check_name("group", group))
        body = SubscriptionBody(subscription_timestamp=start, queue_name=check_name("queue", queue))
        answer = await self._connection.send(post(path, body, repeatable=False))
        return answer.decode(Resubscribed).partitions_updated

    async def lag(self, queue: str, group: str) -> Sequence[PartitionLag]:
        """A group's place in each partition of a queue; a reader group has ``lanes`` instead."""
        found: list[PartitionLag] = []
        while True:
            some = (await self._in_queue(queue, group, len(found))).partitions
            found += map(to_partition_lag, some)
            if len(some) < PAGE:
                return found

    async def lanes(self, queue: str, group: str) -> Sequence[LaneLag]:
        """The position of a reader group, such as a Spark stream, in each lane of a queue."""
        return [to_lane_lag(lane) for lane in (await self._in_queue(queue, group, 0)).lanes]

    async def delete(self, queue: str, group: str) -> None:
        """Forget a group; the next pop under its name is a first contact again."""
        check_name("queue", queue)
        request = delete(paths.group_in_queue(check_name("group", group), queue))
        answer = await self._connection.send(request)
        if not answer.decode(DeletedGroup).metadata_deleted:
            raise GroupNotFound(queue, group)

    async def list(self, queue: str | None = None) -> Sequence[GroupLag]:
        """Every group, of one queue or of all, and how far it is."""
        answer = await self._connection.send(read(paths.GROUPS))
        lags = [to_group_lag(row) for row in answer.decode(list[GroupRow])]
        if queue is None:
            return lags
        # If there is none: because there is no group, or because there is no queue?
        await self._connection.send(read(paths.queue(check_name("queue", queue)), limit=1))
        return [lag for lag in lags if lag.queue == queue]

    async def _in_queue(self, queue: str, group: str, offset: int) -> GroupQueue:
        request = read(paths.group(check_name("group", group)), limit=PAGE, offset=offset)
        try:
            answer = await self._connection.send(request)
            return answer.decode(dict[str, GroupQueue])[queue]
        except (NotFound, KeyError):
            raise GroupNotFound(queue, group) from None
