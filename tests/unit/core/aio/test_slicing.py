"""Loops that share the event loop."""

import asyncio
import selectors
from itertools import groupby, pairwise
from time import perf_counter

from skep.core.aio import SLICE_SECONDS, yielding

TICK = "tick"


class Selector(selectors.DefaultSelector):
    """Counts how often the event loop waits, in which time other threads run."""

    waits = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.waits += timeout is None or timeout > 0
        return super().select(timeout)


def work(seconds: float) -> None:
    """Keep the event loop busy."""
    until = perf_counter() + seconds
    while perf_counter() < until:
        pass


async def record(loops: int, items: int, seconds: float) -> list[str]:
    """What ran in which order: items of loops by the loop's name, and ticks of somebody else."""
    events: list[str] = []

    async def tick() -> None:
        while True:
            events.append(TICK)
            await asyncio.sleep(0)

    async def loop(name: str) -> None:
        async for _ in yielding(range(items)):
            events.append(name)
            work(seconds)

    ticking = asyncio.create_task(tick())
    await asyncio.gather(*(loop(str(number)) for number in range(loops)))
    ticking.cancel()
    return events


async def test_others_run_after_every_slice_of_a_loop() -> None:
    events = await record(loops=1, items=10, seconds=SLICE_SECONDS)
    assert all(TICK in pair for pair in pairwise(events[1:]))


async def test_however_many_loops_run_one_of_them_has_a_slice_at_a_time() -> None:
    events = await record(loops=20, items=5, seconds=SLICE_SECONDS)

    runs = [list(run) for is_tick, run in groupby(events, TICK.__eq__) if not is_tick]
    # All of them may begin at once.
    assert [len(run) for run in runs] == [20] + [1] * 20 * 4


async def test_loops_take_turns() -> None:
    events = await record(loops=3, items=4, seconds=SLICE_SECONDS)
    assert [event for event in events if event != TICK] == ["0", "1", "2"] * 4


async def test_a_loop_that_was_cancelled_does_not_hold_up_the_others() -> None:
    async def loop() -> int:
        done = 0
        async for _ in yielding(range(5)):
            work(SLICE_SECONDS)
            done += 1
        return done

    first, second = asyncio.create_task(loop()), asyncio.create_task(loop())
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 5


async def test_a_short_loop_does_not_yield() -> None:
    events = await record(loops=1, items=10, seconds=0)
    assert TICK not in events[events.index("0") : len(events) - events[::-1].index("0")]


def test_the_event_loop_waits_after_every_slice_so_that_others_run() -> None:
    async def loop() -> None:
        async for _ in yielding(range(10)):
            work(SLICE_SECONDS)

    selector = Selector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(loop())
        assert selector.waits >= 9
