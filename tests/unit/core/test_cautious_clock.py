"""What time it is for who removes things, when somebody sets the clock."""

from skep.core.cautious_clock import LEAP, CautiousClock
from skep.model.name import SECOND
from skep.store.clock import SystemClock
from skep.testing.clock import ManualClock

HOUR = 3600


def test_a_leap_is_not_believed_at_once() -> None:
    clock = ManualClock()
    cautious = CautiousClock(clock)
    before = cautious.now()

    clock.advance(HOUR)

    assert before <= cautious.now() < before + LEAP


def test_a_small_step_is_believed() -> None:
    clock = ManualClock()
    cautious = CautiousClock(clock)

    clock.advance(30)

    assert cautious.now() == clock.now()


def test_a_clock_that_is_set_back_is_believed() -> None:
    clock = ManualClock()
    cautious = CautiousClock(clock)
    clock.advance(HOUR)
    cautious.now()

    clock.advance(-2 * HOUR)

    assert cautious.now() == clock.now()


def test_a_leap_that_lasts_is_believed_as_fast_as_time_passes() -> None:
    clock, own = ManualClock(), ManualClock()
    cautious = CautiousClock(clock, own)
    clock.advance(HOUR)
    cautious.now()

    for each in (clock, own):
        each.advance(HOUR / 2)
    halfway = clock.now() - cautious.now()
    for each in (clock, own):
        each.advance(HOUR / 2)

    assert halfway == HOUR // 2 * SECOND
    assert cautious.now() == clock.now()


def test_a_clock_that_goes_on_is_followed() -> None:
    clock = SystemClock()
    cautious = CautiousClock(clock)

    assert abs(cautious.now() - clock.now()) < SECOND
