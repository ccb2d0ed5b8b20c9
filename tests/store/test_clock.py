"""The clock that the tests give to a store."""

from functools import partial

from skep.model.name import SECOND
from skep.store.clock import Clock
from skep.testing.clock import ManualClock


def test_time_passes_only_when_told(clock: ManualClock) -> None:
    given: Clock = clock
    before = given.now()

    clock.advance(1.5)

    assert given.now() == before + 3 * SECOND // 2


def test_callbacks_are_called_in_the_order_of_time_and_at_their_time(clock: ManualClock) -> None:
    noon = clock.now()
    seen: list[tuple[str, int]] = []

    def see(name: str) -> None:
        seen.append((name, clock.now() - noon))

    for name, seconds in (("late", 3), ("early", 1), ("twin", 1), ("never", 9)):
        clock.call_at(noon + seconds * SECOND, partial(see, name))

    clock.advance(5)

    assert seen == [("early", SECOND), ("twin", SECOND), ("late", 3 * SECOND)]
    assert clock.now() == noon + 5 * SECOND


def test_a_callback_may_ask_for_another_in_the_same_stretch(clock: ManualClock) -> None:
    seen: list[int] = []

    def tick() -> None:
        seen.append(clock.now())
        clock.call_at(clock.now() + SECOND, tick)

    noon = clock.now()
    clock.call_at(noon + SECOND, tick)

    clock.set(noon + 3 * SECOND)

    assert seen == [noon + n * SECOND for n in (1, 2, 3)]


def test_a_cancelled_callback_is_not_called(clock: ManualClock) -> None:
    seen: list[str] = []
    first = clock.call_at(clock.now() + 1, lambda: seen.append("first"))
    clock.call_at(clock.now() + 2, lambda: seen.append("second"))

    first.cancel()
    clock.advance(1)

    assert seen == ["second"]


def test_going_back_calls_nobody(clock: ManualClock) -> None:
    seen: list[str] = []
    clock.call_at(clock.now() + 1, lambda: seen.append("no"))

    clock.set(clock.now() - SECOND)

    assert seen == []
