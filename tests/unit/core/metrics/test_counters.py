"""Counting by the minute."""

from collections.abc import Collection

from skep.core.metrics.counters import KEPT_MINUTES, MINUTE, QueueCounters
from skep.model.name import Instant
from skep.testing.clock import NOON, ManualClock


def count(metrics: QueueCounters, queue: str, pushed: int, now: Instant) -> None:
    metrics.begin(now)
    metrics.of(queue).pushed += pushed


def everything(queue: str) -> bool:
    return True


def pushed(
    metrics: QueueCounters, start: Instant, stop: Instant, *, minutes: int = 1
) -> dict[Instant, int]:
    """Minutes since noon, and what was pushed from then on."""
    buckets = metrics.series(everything, start, stop, minutes=minutes)
    return {(bucket.start - NOON) // MINUTE: bucket.tally.pushed for bucket in buckets}


def known_queues(metrics: QueueCounters, start: Instant, stop: Instant) -> Collection[str]:
    return metrics.by_queue(everything, start, stop).keys()


def test_what_happens_is_counted_in_its_minute() -> None:
    clock = ManualClock()
    metrics = QueueCounters(clock)

    count(metrics, "orders", 3, clock.now())
    clock.advance(59)
    count(metrics, "orders", 4, clock.now())
    clock.advance(61)
    count(metrics, "orders", 5, clock.now())

    assert pushed(metrics, NOON, clock.now()) == {0: 7, 1: 0, 2: 5}
    assert metrics.total(everything).pushed == 12


def test_minutes_are_gathered_in_buckets_that_begin_at_round_times() -> None:
    clock = ManualClock(NOON + 3 * MINUTE)
    metrics = QueueCounters(clock)
    for _ in range(4):
        count(metrics, "orders", 1, clock.now())
        clock.advance(60)

    assert pushed(metrics, NOON, clock.now(), minutes=5) == {0: 2, 5: 2}


def test_only_the_minutes_that_were_asked_for_are_shown() -> None:
    clock = ManualClock()
    metrics = QueueCounters(clock)
    for n in range(5):
        count(metrics, "orders", n, clock.now())
        clock.advance(60)

    assert pushed(metrics, NOON + MINUTE, NOON + 2 * MINUTE) == {1: 1, 2: 2}


def test_nothing_is_said_of_the_time_before_the_start() -> None:
    clock = ManualClock()
    metrics = QueueCounters(clock)

    assert pushed(metrics, NOON - 60 * MINUTE, clock.now()) == {0: 0}


def test_what_is_older_than_a_day_is_forgotten_and_still_in_the_total() -> None:
    clock = ManualClock()
    metrics = QueueCounters(clock)
    count(metrics, "orders", 1, clock.now())

    clock.advance(60 * KEPT_MINUTES)
    count(metrics, "orders", 2, clock.now())

    assert sum(pushed(metrics, 0, clock.now()).values()) == 2
    assert metrics.total(everything).pushed == 3


def test_queues_are_counted_apart() -> None:
    clock = ManualClock()
    metrics = QueueCounters(clock)
    count(metrics, "orders", 1, clock.now())
    count(metrics, "payments", 2, clock.now())

    found = metrics.by_queue(lambda queue: queue == "payments", NOON, clock.now())

    assert {queue: tally.pushed for queue, tally in found.items()} == {"payments": 2}
    assert metrics.total(lambda queue: queue == "orders").pushed == 1


def test_too_many_queues_cost_old_minutes_their_names_but_no_numbers() -> None:
    clock = ManualClock()
    metrics = QueueCounters(clock, max_tallies=10)
    for minute in range(4):
        for n in range(5):
            count(metrics, f"queue-{minute}-{n}", 1, clock.now())
        clock.advance(60)

    assert pushed(metrics, NOON, NOON + 3 * MINUTE) == {0: 5, 1: 5, 2: 5, 3: 5}
    assert "queue-3-0" in known_queues(metrics, NOON, clock.now())
    assert "queue-0-0" not in known_queues(metrics, NOON, clock.now())


def test_a_minute_without_names_is_not_shown_to_who_may_not_see_all_queues() -> None:
    clock = ManualClock()
    metrics = QueueCounters(clock, max_tallies=2)
    for _ in range(3):
        count(metrics, "orders", 1, clock.now())
        count(metrics, "payments", 1, clock.now())
        clock.advance(60)

    buckets = metrics.series(lambda queue: queue == "orders", NOON, clock.now(), minutes=60)

    assert [bucket.tally.pushed for bucket in buckets] == [1]


def test_queues_that_are_gone_are_forgotten_when_they_are_many() -> None:
    clock = ManualClock()
    metrics = QueueCounters(clock)
    for n in range(1100):
        count(metrics, f"queue-{n}", 1, clock.now())
    clock.advance(60)
    metrics.begin(clock.now())

    metrics.keep_only({"queue-7"})

    assert list(metrics.totals(everything)) == ["queue-7"]


def test_lately_is_this_minute_and_the_one_before() -> None:
    clock = ManualClock()
    metrics = QueueCounters(clock)
    count(metrics, "orders", 100, clock.now())
    clock.advance(120)
    count(metrics, "orders", 6, clock.now())
    clock.advance(60)
    count(metrics, "orders", 3, clock.now())
    clock.advance(30)

    tally, seconds = metrics.lately(everything)

    assert (tally.pushed, seconds) == (9, 90)
