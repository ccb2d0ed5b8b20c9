"""Consumer groups on a server: list, lag, seek, delete.

Generated from ``async_groups.py``: change that, then ``make sync``.
"""

from collections.abc import Sequence
from datetime import datetime

from skep.client.request import PAGE, delete, post, read
from skep.client.sync_connection import Connection
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


class GroupsResource:
    """The methods of ``Broker.groups``, over HTTP."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def seek(self, queue: str, group: str, to: Target, *, partition: str | None = None) -> int:
        """Move a group's cursors to the ``beginning``, the ``end``, an offset or a datetime.

        Returns the number of partitions. Leases end, and acks beyond the cursor are discarded.
        """
        check_name("queue", queue)
        check_label("partition", partition)
        path = paths.seek(check_name("group", group), queue, partition)
        try:
            answer = self._connection.send(post(path, from_target(to), repeatable=False))
        except Invalid as error:
            # The wire has four fields for this one argument.
            raise Invalid("to", error.reason) from None
        if partition is None:
            return answer.decode(Sought).partitions_updated
        return int(answer.decode(SoughtPartition).updated)

    def restart(self, queue: str, group: str) -> int:
        """Move a group back to where it started in a queue; return the number of partitions."""
        check_name("queue", queue)
        path = paths.group_in_queue(check_name("group", group), queue)
        answer = self._connection.send(delete(path, deleteMetadata=False))
        moved = answer.decode(DeletedGroup).deleted_partitions
        if not moved:
            # Either there is no partition, or no group: the latter raises here.
            self._in_queue(queue, group, 0)
        return moved

    def resubscribe(self, queue: str, group: str, start: datetime) -> int:
        """Let a group start at an instant in partitions that it has not read yet.

        Returns the number of those partitions. In all others it continues from its cursor, and
        the recorded start of its subscription does not change.
        """
        from_datetime("to", start)
        path = paths.subscription(check_name("group", group))
        body = SubscriptionBody(subscription_timestamp=start, queue_name=check_name("queue", queue))
        answer = self._connection.send(post(path, body, repeatable=False))
        return answer.decode(Resubscribed).partitions_updated

    def lag(self, queue: str, group: str) -> Sequence[PartitionLag]:
        """Return the lag of a group in each partition; a reader group has ``lanes`` instead."""
        lags: list[PartitionLag] = []
        while True:
            page = (self._in_queue(queue, group, len(lags))).partitions
            lags += map(to_partition_lag, page)
            if len(page) < PAGE:
                return lags

    def lanes(self, queue: str, group: str) -> Sequence[LaneLag]:
        """The position of a reader group, such as a Spark stream, in each lane of a queue."""
        return [to_lane_lag(lane) for lane in (self._in_queue(queue, group, 0)).lanes]

    def delete(self, queue: str, group: str) -> None:
        """Delete a group; the next pop under its name subscribes again."""
        check_name("queue", queue)
        request = delete(paths.group_in_queue(check_name("group", group), queue))
        answer = self._connection.send(request)
        if not answer.decode(DeletedGroup).metadata_deleted:
            raise GroupNotFound(queue, group)

    def list(self, queue: str | None = None) -> Sequence[GroupLag]:
        """Return the lag of every group, of one queue or of all."""
        answer = self._connection.send(read(paths.GROUPS))
        lags = [to_group_lag(row) for row in answer.decode(list[GroupRow])]
        if queue is None:
            return lags
        # No group, or no queue? The latter raises here.
        self._connection.send(read(paths.queue(check_name("queue", queue)), limit=1))
        return [lag for lag in lags if lag.queue == queue]

    def _in_queue(self, queue: str, group: str, offset: int) -> GroupQueue:
        request = read(paths.group(check_name("group", group)), limit=PAGE, offset=offset)
        try:
            answer = self._connection.send(request)
            return answer.decode(dict[str, GroupQueue])[queue]
        except (NotFound, KeyError):
            raise GroupNotFound(queue, group) from None
