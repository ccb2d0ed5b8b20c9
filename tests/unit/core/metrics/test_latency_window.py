"""Latencies in memory, by the minute."""

from skep.core.metrics.counters import MINUTE, OTHERS
from skep.core.metrics.latency_window import MAX_MINUTES, LatencyKey, LatencyWindow
from skep.testing.clock import NOON, ManualClock


def test_groups_that_are_too_many_count_under_one_name() -> None:
    latencies = LatencyWindow(ManualClock(), max_sketches=2)

    for group in ("a", "b", "c", "d", "a"):
        sketch = latencies.of("orders", group)
        sketch[0] = sketch.get(0, 0) + 1

    (minute,) = latencies.all
    assert minute.by_place == {
        LatencyKey("orders", "a"): {0: 2},
        LatencyKey("orders", "b"): {0: 1},
        LatencyKey(OTHERS, OTHERS): {0: 2},
    }


def test_a_minute_in_which_nothing_was_counted_is_not_kept() -> None:
    latencies = LatencyWindow(ManualClock())

    latencies.begin(NOON + MINUTE)

    assert latencies.over == []


def test_a_clock_that_is_set_back_begins_another_record_of_the_minute() -> None:
    latencies = LatencyWindow(ManualClock())
    for now in (NOON, NOON + MINUTE, NOON, NOON + MINUTE):
        latencies.begin(now)
        latencies.of("orders", "billing")[0] = 1

    assert len({minute.id for minute in latencies.all}) == 4


def test_a_store_that_cannot_be_written_does_not_turn_into_memory() -> None:
    latencies = LatencyWindow(ManualClock())

    for number in range(MAX_MINUTES + 10):
        latencies.begin(NOON + number * MINUTE)
        latencies.of("orders", "billing")[0] = 1

    assert len(latencies.over) == MAX_MINUTES
    assert latencies.over[-1].number == NOON // MINUTE + MAX_MINUTES + 8
