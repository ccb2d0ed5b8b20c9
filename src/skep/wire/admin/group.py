"""``/api/v1/consumer-groups``: lag, seek, delete."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec

from skep.errors import Invalid
from skep.model.address import partition_id, partition_of
from skep.model.name import from_datetime
from skep.model.stats import GroupLag, LaneLag, PartitionLag
from skep.wire.body import Body
from skep.wire.pagination import Limit, Skip, in_utc
from skep.wire.stats.counts import ManyLimit

LAGGING_SECONDS = 300
"""A group whose oldest message has waited longer than this is ``Lagging``."""

State = Literal["Stable", "Lagging"]
Target = Literal["beginning", "end"] | int | datetime


class GroupRow(Body, frozen=True, kw_only=True):
    """A group in a queue. ``totalLag`` is the backlog in messages, ``maxTimeLag`` the age in
    seconds of its oldest message. ``members`` are consumers that hold a lease."""

    name: str
    topics: list[str]
    queue_name: str
    members: int
    partitions: int
    leased_partitions: int
    partitions_with_lag: int
    total_lag: int
    max_time_lag: float
    oldest_at: datetime | None
    state: State
    subscription_mode: str
    subscription_timestamp: datetime | None
    subscription_created_at: datetime


class GroupQuery(Body, frozen=True, kw_only=True):
    """A page of the partitions of each queue."""

    limit: ManyLimit = 10_000
    offset: Skip = 0


class GroupPartition(Body, frozen=True, kw_only=True):
    partition: str
    partition_id: UUID
    worker_id: str | None
    last_consumed_at: datetime | None
    total_consumed: int
    offset: int
    end: int
    offset_lag: int
    time_lag_seconds: float
    oldest_at: datetime | None
    attempt: int
    batches_consumed: int
    lease_active: bool
    lease_expires_at: datetime | None


class GroupLane(Body, frozen=True, kw_only=True):
    """The position of a reader group in one lane of a queue's journal."""

    lane: int
    position: int
    head: int
    lag: int
    time_lag_seconds: float
    oldest_at: datetime | None


class GroupQueue(Body, frozen=True, kw_only=True):
    """A group that pops has ``partitions``; a reader group has ``lanes``."""

    partitions: list[GroupPartition]
    lanes: tuple[GroupLane, ...] = ()


class LaggingQuery(Body, frozen=True, kw_only=True):
    min_lag_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 3600
    limit: Limit = 1000


class LaggingRow(msgspec.Struct, frozen=True, kw_only=True):
    consumer_group: str
    queue_name: str
    partition_name: str
    partition_id: UUID
    worker_id: str | None
    offset_lag: int
    time_lag_seconds: float
    lag_hours: float
    oldest_unconsumed_at: datetime | None
    last_consumed_at: datetime | None


class DeleteGroupQuery(Body, frozen=True, kw_only=True):
    """Without ``deleteMetadata`` the group is kept, and moved back to where it started."""

    delete_metadata: bool = True


class DeletedGroup(Body, frozen=True, kw_only=True):
    success: bool = True
    consumer_group: str
    queue_name: str | None = None
    deleted_partitions: int
    metadata_deleted: bool


class SubscriptionBody(Body, frozen=True, kw_only=True):
    """In one queue, or in every queue that the group has popped from."""

    subscription_timestamp: datetime
    queue_name: str | None = None


class Resubscribed(Body, frozen=True, kw_only=True):
    """``rowsUpdated`` counts queues, ``partitionsUpdated`` their partitions that the group had not
    read yet: these start at the new time."""

    success: bool = True
    consumer_group: str
    new_timestamp: datetime
    rows_updated: int
    partitions_updated: int


class SeekBody(Body, frozen=True, kw_only=True):
    """The target: exactly one of these."""

    to_end: bool = False
    to_beginning: bool = False
    timestamp: datetime | None = None
    offset: int | None = None


class Sought(Body, frozen=True, kw_only=True):
    success: bool = True
    consumer_group: str
    queue_name: str
    seek_to_end: bool
    seek_to_beginning: bool
    target_timestamp: datetime | None
    target_offset: int | None
    partitions_updated: int


class SoughtPartition(Body, frozen=True, kw_only=True):
    """``cursorMovedTo`` is the offset that the group reads next."""

    success: bool = True
    consumer_group: str
    queue_name: str
    partition_name: str
    seek_to_end: bool
    seek_to_beginning: bool
    target_timestamp: datetime | None
    target_offset: int | None
    updated: bool
    cursor_moved_to: int


def to_target(body: SeekBody) -> tuple[str, Target]:
    """The target of a seek, and the field that contains it."""
    targets: dict[str, Target] = {}
    if body.to_end:
        targets["toEnd"] = "end"
    if body.to_beginning:
        targets["toBeginning"] = "beginning"
    if body.timestamp is not None:
        targets["timestamp"] = in_utc(body.timestamp)
    if body.offset is not None:
        targets["offset"] = body.offset
    if len(targets) != 1:
        raise Invalid(
            ", ".join(targets) or "toEnd",
            "must specify either 'toEnd': true or 'timestamp', "
            "or 'toBeginning': true or 'offset', and only one of them",
        )
    (found,) = targets.items()
    return found


def to_group_row(lag: GroupLag, now: datetime) -> GroupRow:
    age = seconds_since(lag.oldest_at, now)
    return GroupRow(
        name=lag.group,
        topics=[lag.queue],
        queue_name=lag.queue,
        members=lag.members,
        partitions=lag.partitions,
        leased_partitions=lag.leased_partitions,
        partitions_with_lag=lag.partitions_with_backlog,
        total_lag=lag.backlog,
        max_time_lag=age,
        oldest_at=lag.oldest_at,
        state="Lagging" if age > LAGGING_SECONDS else "Stable",
        subscription_mode=lag.subscription_mode,
        subscription_timestamp=lag.subscription_from,
        subscription_created_at=lag.subscribed_at,
    )


def to_group_partition(lag: PartitionLag, now: datetime) -> GroupPartition:
    return GroupPartition(
        partition=lag.partition,
        partition_id=partition_id(lag.number),
        worker_id=lag.worker_id,
        last_consumed_at=lag.last_consumed_at,
        total_consumed=lag.messages_consumed,
        offset=lag.cursor,
        end=lag.end,
        offset_lag=lag.backlog,
        time_lag_seconds=seconds_since(lag.oldest_at, now),
        oldest_at=lag.oldest_at,
        attempt=lag.attempt,
        batches_consumed=lag.batches_consumed,
        lease_active=lag.leased,
        lease_expires_at=lag.lease_expires_at,
    )


def to_group_lane(lag: LaneLag, now: datetime) -> GroupLane:
    return GroupLane(
        lane=lag.lane,
        position=lag.position,
        head=lag.head,
        lag=lag.backlog,
        time_lag_seconds=seconds_since(lag.oldest_at, now),
        oldest_at=lag.oldest_at,
    )


def to_group_lag(row: GroupRow) -> GroupLag:
    """A row as the broker's type."""
    return GroupLag(
        queue=row.queue_name,
        group=row.name,
        subscription_mode=row.subscription_mode,
        subscription_from=row.subscription_timestamp,
        subscribed_at=row.subscription_created_at,
        partitions=row.partitions,
        backlog=row.total_lag,
        partitions_with_backlog=row.partitions_with_lag,
        leased_partitions=row.leased_partitions,
        members=row.members,
        oldest_at=row.oldest_at,
    )


def to_partition_lag(partition: GroupPartition) -> PartitionLag:
    return PartitionLag(
        partition=partition.partition,
        number=partition_of(partition.partition_id),
        cursor=partition.offset,
        end=partition.end,
        backlog=partition.offset_lag,
        leased=partition.lease_active,
        worker_id=partition.worker_id,
        lease_expires_at=partition.lease_expires_at,
        attempt=partition.attempt,
        oldest_at=partition.oldest_at,
        last_consumed_at=partition.last_consumed_at,
        messages_consumed=partition.total_consumed,
        batches_consumed=partition.batches_consumed,
    )


def to_lane_lag(lane: GroupLane) -> LaneLag:
    return LaneLag(
        lane=lane.lane,
        position=lane.position,
        head=lane.head,
        backlog=lane.lag,
        oldest_at=lane.oldest_at,
    )


def from_target(to: Target) -> SeekBody:
    """The body of a seek."""
    if to == "end":
        return SeekBody(to_end=True)
    if to == "beginning":
        return SeekBody(to_beginning=True)
    if isinstance(to, datetime):
        from_datetime("to", to)
        return SeekBody(timestamp=to)
    if isinstance(to, int):
        return SeekBody(offset=to)
    raise Invalid("to", f"{to!r} is not 'beginning', 'end', an offset or a datetime")


def to_lagging_row(queue: str, group: str, lag: PartitionLag, now: datetime) -> LaggingRow:
    age = seconds_since(lag.oldest_at, now)
    return LaggingRow(
        consumer_group=group,
        queue_name=queue,
        partition_name=lag.partition,
        partition_id=partition_id(lag.number),
        worker_id=lag.worker_id,
        offset_lag=lag.backlog,
        time_lag_seconds=age,
        lag_hours=age / 3600,
        oldest_unconsumed_at=lag.oldest_at,
        last_consumed_at=lag.last_consumed_at,
    )


def seconds_since(moment: datetime | None, now: datetime) -> float:
    return 0.0 if moment is None else max(0.0, (now - moment).total_seconds())
