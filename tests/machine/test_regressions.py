"""Differences that the machine once found, each as short as it can be told, on every store."""

from collections.abc import Iterator

import pytest

from tests.machine.consume_rules import ConsumingMachine
from tests.machine.crash_rules import CrashingMachine
from tests.machine.model import Put, Rules

A, B = "a", "b"
MAIL = "mail"
RULES = Rules(
    lease_time=10,
    retry_limit=1,
    retry_delay=1000,
    retention_seconds=0,
    completed_retention_seconds=0,
)


@pytest.fixture(params=[ConsumingMachine, CrashingMachine], ids=["memory", "rocksdb"])
def queue(request: pytest.FixtureRequest) -> Iterator[ConsumingMachine]:
    """A machine that is led by hand; what differs is found by the step, or at the end."""
    machine: ConsumingMachine = request.param()
    machine.configure(rules=RULES)
    yield machine
    machine.nothing_differs()
    machine.read_everything_again()
    machine.teardown()


def messages(count: int, partition: str = A) -> list[Put]:
    return [Put(partition, bytes([number]), None) for number in range(count)]


def test_an_ack_beyond_the_run_outlives_the_ack_of_a_shorter_run(queue: ConsumingMachine) -> None:
    queue.push(some=messages(3))
    queue.pop_from_one_partition(group=MAIL, partition=A, batch=3)
    queue.ack_some_in_any_order(pick=0, which=[2])

    queue.pop_again_when_the_lease_has_run_out(pick=0, batch=1)
    queue.ack(pick=0)

    queue.pop_from_one_partition(group=MAIL, partition=A, batch=5)


@pytest.mark.parametrize("end", ["ack", "fail", "give up"])
def test_a_failure_that_was_left_open_goes_with_its_message(
    queue: ConsumingMachine, end: str
) -> None:
    queue.push(some=messages(2))
    queue.pop_from_one_partition(group=MAIL, partition=A, batch=2)
    queue.fail_some(pick=0, which=[0], error="boom")

    queue.subject.run(queue.subject.broker.queues.clear("orders"))
    queue.model.clear([A])

    if end == "ack":
        queue.ack(pick=0)
    elif end == "fail":
        queue.fail_some(pick=0, which=[1], error="boom")
    else:
        queue.say_something_of_each(pick=0, which=[(1, "dead_letter")])


def test_a_failure_that_was_left_open_and_is_then_given_up_is_one_dead_letter(
    queue: ConsumingMachine,
) -> None:
    queue.push(some=messages(3))
    queue.pop_from_one_partition(group=MAIL, partition=A, batch=3)
    queue.fail_some(pick=0, which=[0], error="boom")

    queue.say_something_of_each(pick=0, which=[(0, "dead_letter"), (1, "completed")])


def test_what_is_done_beyond_what_was_removed_is_neither_missed_nor_behind(
    queue: ConsumingMachine,
) -> None:
    queue.push(some=messages(2))
    queue.push(some=messages(3))
    queue.pop_from_one_partition(group=MAIL, partition=A, batch=5)
    queue.ack_some_in_any_order(pick=0, which=[1, 2, 3])

    queue.subject.run(queue.subject.broker.queues.clear("orders"))
    queue.model.clear([A])
    queue.nothing_differs()
    queue.push(some=messages(1))

    queue.pop_again_when_the_lease_has_run_out(pick=0, batch=5)


def test_a_group_that_never_popped_from_a_partition_learns_what_it_missed(
    queue: ConsumingMachine,
) -> None:
    queue.push(some=[*messages(2, A), *messages(2, B)])
    queue.pop_from_one_partition(group=MAIL, partition=A, batch=1)

    queue.subject.run(queue.subject.broker.queues.clear("orders"))
    queue.model.clear([A, B])
    queue.push(some=messages(1, B))

    queue.pop_from_one_partition(group=MAIL, partition=B, batch=1)


def test_a_transaction_that_is_refused_makes_no_partition(queue: ConsumingMachine) -> None:
    queue.push(some=messages(1, A))
    queue.pop_from_one_partition(group=MAIL, partition=A, batch=1)
    queue.ack(pick=0)

    queue.transact_under_a_lost_lease(pick=0, some=messages(1, B))

    partitions = queue.subject.run(queue.subject.broker.queues.partitions("orders"))
    names = [one.name for one in partitions]
    assert names == [A]
