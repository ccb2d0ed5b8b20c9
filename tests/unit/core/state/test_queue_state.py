"""How old what waits is, when appends of several servers are heard of in another order."""

from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.model.consumer import ConsumerState
from skep.model.queue import Partition, Queue, Subscription

CREATED, FIRST, SECOND, THIRD = 100, 200, 300, 400


def make(end: int, cursor: int | None) -> tuple[GroupState, PartitionState]:
    """A partition, and a group that is at a cursor in it or has no state."""
    queue = QueueState(Queue(number=1, name="orders"))
    subscription = Subscription(queue=1, group="g", mode="all", from_at=None, created_at=0)
    group = queue.groups["g"] = GroupState(queue, subscription)
    stored = Partition(
        number=2,
        queue=1,
        name="a",
        created_at=CREATED,
        end=end,
        first_at=FIRST if end else 0,
        newest_at=FIRST if end else 0,
    )
    partition = queue.add(stored)
    if cursor is not None:
        group.put(partition, ConsumerState(version=1, cursor=cursor, oldest_at=FIRST))
    return group, partition


def oldest_at(group: GroupState, partition: PartitionState) -> int:
    return group.oldest_at(partition, group.consumer(partition))


def test_what_follows_at_once_is_as_old_as_it_is() -> None:
    group, partition = make(end=5, cursor=5)

    partition.grow(8, SECOND, start=5)

    assert oldest_at(group, partition) == SECOND


def test_what_lies_between_is_not_older_than_what_was_known_before() -> None:
    group, partition = make(end=5, cursor=5)

    # Another server appended 5 to 8 at SECOND, and that was not heard of.
    partition.grow(10, THIRD, start=8)

    assert oldest_at(group, partition) == FIRST


def test_what_lies_between_in_a_new_partition_is_not_older_than_the_partition() -> None:
    group, partition = make(end=0, cursor=None)

    partition.grow(10, THIRD, start=8)

    assert partition.first_at == CREATED
    assert oldest_at(group, partition) == CREATED


def test_a_group_that_is_known_to_be_behind_what_lies_between_knows_the_age() -> None:
    group, partition = make(end=5, cursor=8)

    partition.grow(10, THIRD, start=8)

    assert oldest_at(group, partition) == THIRD


def test_the_age_of_the_last_message_is_known_in_any_case() -> None:
    group, partition = make(end=5, cursor=5)
    partition.grow(10, THIRD)

    group.put(partition, ConsumerState(version=2, cursor=9, oldest_at=FIRST))

    assert oldest_at(group, partition) == THIRD
