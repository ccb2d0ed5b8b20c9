"""Runs of pipelines that the broker is told of."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from skep import Broker
from skep.core.admin import pipeline_run as pipelines
from skep.errors import Invalid, NotFound
from skep.model.pipeline import MAX_NAMES, MAX_TEXT
from skep.store.open import open_store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import a_run, make_broker, moment


async def ids(queue: Broker) -> list[str]:
    return [run.id for run in await queue.pipelines.list()]


async def test_what_is_said_of_a_run_is_kept_with_the_time_at_which_it_was_heard(
    queue: Broker, clock: ManualClock
) -> None:
    run = a_run(
        target="/srv/a", messages=12, batches=3, groups=("g",), state="failed", error="no room"
    )

    heard = await queue.pipelines.put(run)

    assert heard == replace(run, updated_at=moment(clock))
    assert await queue.pipelines.get(run.id) == heard
    assert await queue.pipelines.list() == [heard]


async def test_what_is_said_later_replaces_what_was_said_before(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.pipelines.put(a_run(messages=1))
    clock.advance(5)
    await queue.pipelines.put(a_run(messages=2, state="done"))

    (run,) = await queue.pipelines.list()
    assert (run.messages, run.state, run.updated_at) == (2, "done", moment(clock))


async def test_the_run_that_was_heard_of_last_comes_first(
    queue: Broker, clock: ManualClock
) -> None:
    for identity in ("b", "a", "c", "b"):
        await queue.pipelines.put(a_run(identity))
        clock.advance(1)

    assert await ids(queue) == ["b", "c", "a"]


async def test_a_run_that_is_silent_for_a_minute_was_interrupted_until_it_is_heard_again(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.pipelines.put(a_run())

    async def state() -> set[str]:
        found = await queue.pipelines.get("archive-1")
        return {found.state, *(run.state for run in await queue.pipelines.list())}

    clock.advance(60)
    assert await state() == {"running"}
    clock.advance(0.000001)
    assert await state() == {"interrupted"}
    await queue.pipelines.put(a_run())
    assert await state() == {"running"}


@pytest.mark.parametrize("state", ["done", "stopped", "failed"])
async def test_a_run_that_has_ended_may_be_silent(
    queue: Broker, clock: ManualClock, state: str
) -> None:
    await queue.pipelines.put(a_run(state=state))
    clock.advance(3600)

    assert (await queue.pipelines.get("archive-1")).state == state


async def test_of_too_many_the_oldest_goes_that_is_not_running(
    queue: Broker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelines, "MAX_RUNS", 3)
    for identity, state in (("a", "running"), ("b", "done"), ("c", "failed"), ("d", "running")):
        await queue.pipelines.put(a_run(identity, state=state))
        clock.advance(1)

    assert await ids(queue) == ["d", "c", "a"]
    await queue.pipelines.put(a_run("c", state="failed"))
    assert await ids(queue) == ["c", "d", "a"]
    for identity in ("e", "f"):
        clock.advance(1)
        await queue.pipelines.put(a_run(identity))

    assert await ids(queue) == ["f", "e", "d"]


async def test_a_run_that_was_interrupted_goes_before_one_that_is_done(
    queue: Broker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelines, "MAX_RUNS", 2)
    await queue.pipelines.put(a_run("dead"))
    clock.advance(61)
    await queue.pipelines.put(a_run("done", state="done"))

    await queue.pipelines.put(a_run("new"))

    assert set(await ids(queue)) == {"done", "new"}


async def test_runs_that_begin_at_once_are_not_too_many(
    queue: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelines, "MAX_RUNS", 3)

    await asyncio.gather(*(queue.pipelines.put(a_run(f"r{n}")) for n in range(9)))

    assert len(await ids(queue)) == 3


async def test_a_run_is_forgotten(queue: Broker) -> None:
    await queue.pipelines.put(a_run())

    await queue.pipelines.delete("archive-1")

    assert await ids(queue) == []
    assert await queue.pipelines.find("archive-1") is None
    for gone in (queue.pipelines.get, queue.pipelines.delete):
        with pytest.raises(NotFound, match="archive-1"):
            await gone("archive-1")


async def test_runs_are_known_to_the_next_process(tmp_path: Path, clock: ManualClock) -> None:
    async with make_broker(open_store(tmp_path / "store", clock=clock)) as before:
        heard = await before.pipelines.put(a_run())

    async with make_broker(open_store(tmp_path / "store", clock=clock)) as after:
        assert await after.pipelines.list() == [heard]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"identity": ""}, "id"),
        ({"pipeline": "a\n"}, "pipeline"),
        ({"queues": ("orders", "")}, "queues[1]"),
        ({"queues": ("q",) * (MAX_NAMES + 1)}, "queues"),
        ({"groups": ("x" * 256,)}, "groups[0]"),
        ({"target": "x" * (MAX_TEXT + 1)}, "target"),
        ({"target": "\ud800"}, "target"),
        ({"state": "asleep"}, "state"),
        ({"messages": -1}, "messages"),
        ({"batches": 1 << 63}, "batches"),
        ({"host": ""}, "host"),
        ({"started_at": datetime(2030, 1, 1)}, "started_at"),  # noqa: DTZ001
        ({"error": "x" * (MAX_TEXT + 1)}, "error"),
    ],
)
async def test_what_cannot_be_kept_is_refused_by_its_name(
    queue: Broker, fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await queue.pipelines.put(a_run(**fields))

    assert refused.value.field == named
    assert await ids(queue) == []
