"""Queen's streaming SDK, at the three endpoints that it needs."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from queen import Queen, Stream, token_bucket_gate
from tests.support.server_process import ServerProcess

pytestmark = [
    pytest.mark.xdist_group("queen"),
    # The streaming SDK leaves its connections open when it stops.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def leftovers() -> Iterator[None]:
    yield
    # What it left open is closed here, where nobody complains.
    gc.collect()


async def sink(queen: Queen, name: str, count: int) -> list[Any]:
    """What arrives in a queue, until there is enough of it."""
    found: list[Any] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            messages = await queen.queue(name).batch(100).timeout_millis(2000).wait(True).pop()
            found += [message["data"] for message in messages]
            if messages:
                await queen.ack(messages)
    return found


async def until_consumed(runner: Any, count: int) -> None:
    async with asyncio.timeout(20):
        # The client has no event for it, only counters.
        while runner.metrics()["messagesTotal"] < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_stream_maps_filters_and_pushes_on(
    queen: Queen, server: ServerProcess, name: str
) -> None:
    await queen.queue(name).push([{"data": {"n": n}} for n in range(6)])
    stream = (
        Stream.from_(queen.queue(name))
        .filter(lambda message: message["data"]["n"] % 2 == 0)
        .map(lambda message: {"twice": message["data"]["n"] * 2})
        .to(queen.queue(f"{name}-out"))
    )

    runner = await stream.run(name, server.url, max_wait_millis=200)
    out = await sink(queen, f"{name}-out", 3)
    await runner.stop()

    assert out == [{"twice": 0}, {"twice": 4}, {"twice": 8}]
    assert runner.metrics()["errorsTotal"] == 0


async def test_windows_are_summed_and_survive_a_restart(
    queen: Queen, server: ServerProcess, name: str
) -> None:
    stream = (
        Stream.from_(queen.queue(name))
        .window_tumbling(seconds=1, idle_flush_ms=200)
        .aggregate({"count": lambda m: 1, "sum": lambda m: m["n"]})
        .to(queen.queue(f"{name}-out"))
    )
    await queen.queue(name).push([{"data": {"n": n}} for n in (1, 2, 3)])
    first = await stream.run(name, server.url, max_wait_millis=200)
    await until_consumed(first, 3)
    await first.stop()

    second = await stream.run(name, server.url, max_wait_millis=200)
    await asyncio.sleep(1.1)  # the next window
    await queen.queue(name).push([{"data": {"n": 10}}])
    out = await sink(queen, f"{name}-out", 1)
    await second.stop()

    assert (out[0]["count"], out[0]["sum"]) == (3, 6)


async def test_a_changed_computation_is_refused_until_it_is_reset(
    queen: Queen, server: ServerProcess, name: str
) -> None:
    source = Stream.from_(queen.queue(name))
    runner = await source.map(lambda m: m).run(name, server.url, max_wait_millis=100)
    await runner.stop()
    other = source.window_tumbling(seconds=1).aggregate({"count": lambda m: 1})

    with pytest.raises(Exception, match="config_hash mismatch"):
        await other.run(name, server.url, max_wait_millis=100)

    runner = await other.run(name, server.url, max_wait_millis=100, reset=True)
    await runner.stop()


async def test_a_gate_lets_through_what_its_bucket_holds(
    queen: Queen, server: ServerProcess, name: str
) -> None:
    await queen.queue(name).config({"lease_time": 1}).create()
    await queen.queue(name).push([{"data": {"n": n}} for n in range(6)])
    stream = (
        Stream.from_(queen.queue(name))
        .gate(token_bucket_gate(capacity=2, refill_per_sec=2))
        .to(queen.queue(f"{name}-out"))
    )

    runner = await stream.run(name, server.url, max_wait_millis=200)
    out = await sink(queen, f"{name}-out", 6)
    await runner.stop()

    assert [each["n"] for each in out] == list(range(6))
