"""Partitions are listed by number, in whatever order they became known."""

import asyncio
from random import Random

from skep.core.state.partition_order import in_order
from skep.core.state.queue_state import QueueState
from skep.model.queue import Partition, Queue


def make_queue(numbers: list[int]) -> QueueState:
    queue = QueueState(Queue(number=1, name="orders"))
    for number in numbers:
        add(queue, number)
    return queue


def add(queue: QueueState, number: int) -> None:
    queue.add(Partition(number=number, queue=1, name=f"p{number}", created_at=0))


async def listed(queue: QueueState) -> list[int]:
    return [partition.number for partition in await in_order(queue)]


async def test_partitions_are_listed_by_number_in_whatever_order_they_came() -> None:
    numbers = list(range(10_000))
    Random(1).shuffle(numbers)

    assert await listed(make_queue(numbers)) == list(range(10_000))


async def test_many_partitions_that_came_in_order_are_listed_once_each() -> None:
    numbers = list(range(10_000))

    assert await listed(make_queue(numbers)) == numbers


async def test_no_partitions_are_no_list() -> None:
    assert await listed(make_queue([])) == []


async def test_a_list_has_partitions_that_came_since_the_last_one() -> None:
    queue = make_queue([1, 5])
    await listed(queue)

    add(queue, 3)

    assert await listed(queue) == [1, 3, 5]


async def test_a_list_has_no_partition_that_went_since_the_last_one() -> None:
    queue = make_queue([1, 3, 5])
    await listed(queue)

    queue.remove(queue.partitions["p3"])

    assert await listed(queue) == [1, 5]


async def test_a_partition_that_comes_while_others_are_sorted_is_in_the_next_list() -> None:
    numbers = list(range(1, 50_000))
    Random(1).shuffle(numbers)
    queue = make_queue(numbers)
    sorting = asyncio.ensure_future(listed(queue))
    await asyncio.sleep(0)
    assert not sorting.done()

    add(queue, 0)

    await sorting
    assert await listed(queue) == list(range(50_000))
