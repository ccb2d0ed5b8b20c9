"""When a partition may be delivered, and when a message has waited too long."""

import pytest

from skep.core.rules.eligibility import due_at, too_late, visible, waited_too_long
from skep.model.consumer import ConsumerState, Lease
from skep.model.name import SECOND, LeaseId
from skep.model.queue import QueueOptions
from skep.model.segment import Columns, Segment

NOW = 1000 * SECOND
PLAIN = QueueOptions()
DELAYED = QueueOptions(delayed_processing=10)
WINDOWED = QueueOptions(window_buffer=7)


def leased(until: int, *, ready_at: int = 0) -> ConsumerState:
    return ConsumerState(ready_at=ready_at, lease=Lease(LeaseId("a"), 0, until))


def segment(created_at: int) -> Segment:
    return Segment(
        queue=1,
        partition=1,
        start=0,
        created_at=created_at,
        lane=0,
        position=0,
        size=1,
        columns=Columns(payloads=[b"a"]),
    )


@pytest.mark.parametrize("end", [4, 5])
def test_nothing_is_due_for_a_group_that_has_read_all(end: int) -> None:
    assert due_at(PLAIN, ConsumerState(cursor=5), end=end, newest_at=NOW) is None


def test_a_message_of_a_plain_queue_is_due_at_once() -> None:
    due = due_at(PLAIN, ConsumerState(cursor=4), end=5, newest_at=NOW)

    assert due == 0


def test_a_leased_partition_is_due_when_the_lease_expires() -> None:
    due = due_at(PLAIN, leased(NOW + 30), end=1, newest_at=NOW)

    assert due == NOW + 30


def test_a_batch_that_failed_is_due_when_its_retry_is() -> None:
    due = due_at(PLAIN, ConsumerState(ready_at=NOW + 5), end=1, newest_at=NOW)

    assert due == NOW + 5


def test_a_delayed_message_is_due_when_it_is_old_enough() -> None:
    due = due_at(DELAYED, ConsumerState(oldest_at=NOW), end=1, newest_at=NOW + 3)

    assert due == NOW + 10 * SECOND


def test_a_windowed_partition_is_due_when_its_newest_message_is_old_enough() -> None:
    due = due_at(WINDOWED, ConsumerState(oldest_at=NOW), end=2, newest_at=NOW + 3 * SECOND)

    assert due == NOW + 10 * SECOND


@pytest.mark.parametrize(
    ("ready_at", "expires_at", "newest_at", "oldest_at"),
    [
        (NOW, 0, -100 * SECOND, -100 * SECOND),
        (0, NOW, -100 * SECOND, -100 * SECOND),
        (0, 0, NOW - 7 * SECOND, -100 * SECOND),
        (0, 0, -100 * SECOND, NOW - 10 * SECOND),
    ],
    ids=["retry", "lease", "window", "delay"],
)
def test_the_last_of_several_reasons_to_wait_decides(
    ready_at: int, expires_at: int, newest_at: int, oldest_at: int
) -> None:
    both = QueueOptions(delayed_processing=10, window_buffer=7)
    consumer = ConsumerState(
        ready_at=ready_at, oldest_at=oldest_at, lease=Lease(LeaseId("a"), 0, expires_at)
    )

    assert due_at(both, consumer, end=1, newest_at=newest_at) == NOW


def test_segments_are_visible_when_their_delay_is_over() -> None:
    segments = [segment(NOW - 11 * SECOND), segment(NOW - 10 * SECOND), segment(NOW - 9 * SECOND)]

    assert visible(DELAYED, segments, NOW) == segments[:2]
    assert visible(PLAIN, segments, NOW) == segments


def test_nothing_is_visible_behind_what_is_not_even_if_it_is_older() -> None:
    segments = [segment(NOW), segment(NOW - 3600 * SECOND)]

    assert visible(DELAYED, segments, NOW) == []


def test_the_first_segments_that_waited_too_long_are_too_late() -> None:
    impatient = QueueOptions(max_wait_time_seconds=60)
    ages = (62, 61, 60, 61)
    segments = [segment(NOW - age * SECOND) for age in ages]

    assert too_late(impatient, segments, NOW) == segments[:2]
    assert too_late(PLAIN, segments, NOW) == []


@pytest.mark.parametrize(
    ("age", "too_long"), [(0, False), (60 * SECOND, False), (60 * SECOND + 1, True)]
)
def test_a_message_waited_too_long_when_it_is_older_than_allowed(age: int, too_long: bool) -> None:
    options = QueueOptions(max_wait_time_seconds=60)

    assert waited_too_long(options, NOW - age, NOW) == too_long


def test_without_a_maximum_a_message_may_wait_for_ever() -> None:
    assert waited_too_long(PLAIN, 0, NOW * NOW) is False
