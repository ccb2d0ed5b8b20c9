"""Clocks: the one that runs, and the one that stands still until it is told."""

import asyncio
from functools import partial
from itertools import pairwise

import pytest

from skep.model.name import MILLISECOND, SECOND
from skep.store.clock import SystemClock
from skep.testing.clock import NOON, ManualClock


async def called(clock: SystemClock, when: int) -> int:
    """The time at which the clock calls back."""
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[int] = loop.create_future()
    clock.call_at(when, lambda: seen.set_result(clock.now()))
    return await seen


def test_the_system_clock_never_goes_back() -> None:
    clock = SystemClock()

    seen = [clock.now() for _ in range(10_000)]

    assert [(a, b) for a, b in pairwise(seen) if b < a] == []


def test_the_system_clock_counts_microseconds_since_1970(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_893_499_200_000_000_000)

    now = SystemClock().now()

    assert NOON <= now < NOON + 60 * SECOND


def test_a_step_of_the_wall_clock_does_not_move_the_system_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SystemClock()
    before = clock.now()

    monkeypatch.setattr("time.time_ns", lambda: 0)

    assert before <= clock.now() < before + 60 * SECOND


@pytest.mark.parametrize("delay", [0, 1, 300, 5 * MILLISECOND, 20 * MILLISECOND])
async def test_the_system_clock_does_not_call_early(delay: int) -> None:
    clock = SystemClock()
    when = clock.now() + delay

    seen = await called(clock, when)

    assert seen >= when


async def test_the_system_clock_calls_at_once_for_what_is_past() -> None:
    clock = SystemClock()

    seen = await called(clock, clock.now() - 3600 * SECOND)

    assert seen < clock.now() + SECOND


async def test_a_timer_that_was_cancelled_does_not_call() -> None:
    clock = SystemClock()
    calls: list[str] = []
    soon = clock.now() + MILLISECOND
    timer = clock.call_at(soon, partial(calls.append, "cancelled"))

    timer.cancel()
    await called(clock, soon + 20 * MILLISECOND)

    assert calls == []


def test_the_manual_clock_stands_still() -> None:
    clock = ManualClock()

    assert (clock.now(), clock.now()) == (NOON, NOON)


def test_the_manual_clock_goes_as_far_as_it_is_told() -> None:
    clock = ManualClock()

    clock.advance(1.5)

    assert clock.now() == NOON + 1_500 * MILLISECOND


def test_the_manual_clock_calls_in_the_order_of_time_and_at_that_time() -> None:
    clock = ManualClock()
    seen: list[tuple[str, int]] = []

    def note(name: str) -> None:
        seen.append((name, clock.now()))

    for name, seconds in (("late", 3), ("soon", 1), ("never", 4), ("soon too", 1)):
        clock.call_at(NOON + seconds * SECOND, partial(note, name))
    clock.advance(3)

    assert seen == [
        ("soon", NOON + SECOND),
        ("soon too", NOON + SECOND),
        ("late", NOON + 3 * SECOND),
    ]
    assert clock.now() == NOON + 3 * SECOND


def test_the_manual_clock_calls_what_a_callback_asked_for_in_the_same_stretch() -> None:
    clock = ManualClock()
    seen: list[int] = []

    def again() -> None:
        seen.append(clock.now() - NOON)
        clock.call_at(clock.now() + SECOND, again)

    clock.call_at(NOON + SECOND, again)
    clock.advance(3)

    assert seen == [SECOND, 2 * SECOND, 3 * SECOND]


def test_the_manual_clock_does_not_call_what_was_cancelled() -> None:
    clock = ManualClock()
    seen: list[str] = []
    timer = clock.call_at(NOON + SECOND, partial(seen.append, "cancelled"))

    timer.cancel()
    clock.advance(10)

    assert seen == []


def test_the_manual_clock_may_be_set_back() -> None:
    clock = ManualClock()
    seen: list[str] = []
    clock.call_at(NOON + SECOND, partial(seen.append, "early"))

    clock.set(NOON - 3600 * SECOND)

    assert clock.now() == NOON - 3600 * SECOND
    assert seen == []
