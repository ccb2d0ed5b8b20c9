"""What others do to a sink's chunks between a look at them and the commit."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import pytest

from skep.core.aio import TRIES
from skep.errors import Conflict, Corrupted, OutcomeUnknown, QueueFull
from skep.model.change import Change, EntryUpdate
from skep.model.entry import Entry
from skep.store.clock import Clock
from skep.store.memory import MemoryStore
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, finish, make_broker, start
from tests.support.gated_store import GatedStore
from tests.support.sink_builders import (
    APP,
    DUPLICATE,
    IN_STEPS,
    commit,
    left,
    numbers,
    payloads,
    published,
    stage,
)

STAGES, CHUNKS, DECISIONS, APPS = "sink.stages", "sink.chunks", "sink.decisions", "sink.apps"
Call: TypeAlias = Callable[[], Awaitable[object]]


class Interrupted(MemoryStore):
    """A store in which something happens before entries of a space are read or after they were."""

    def __init__(self, *, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.before: dict[str, list[Call]] = {}
        self.after: dict[str, list[Call]] = {}

    async def list_entries(self, space: str, **asked: Any) -> list[Entry]:
        return await self._read(space, partial(super().list_entries, space, **asked))

    async def find_entries(self, space: str, wanted: Sequence[str]) -> list[Entry]:
        return await self._read(space, partial(super().find_entries, space, wanted))

    async def _read(self, space: str, read: Callable[[], Awaitable[list[Entry]]]) -> list[Entry]:
        if calls := self.before.get(space):
            await calls.pop()()
        found = await read()
        if calls := self.after.get(space):
            await calls.pop()()
        return found

    async def touch_all(self, space: str) -> None:
        """Write entries as they are, so that they have other versions."""
        for entry in await super().list_entries(space, limit=100):
            await self.commit([put(space, entry.key, entry.value)])

    async def lose(self, space: str) -> None:
        """Damage the store: what was there is not."""
        for entry in await super().list_entries(space, limit=100):
            await self.commit([put(space, entry.key, None)])


def put(space: str, key: str, value: bytes | None) -> Change:
    return Change(entries=(EntryUpdate(space=space, key=key, value=value),))


@pytest.fixture
def store(clock: ManualClock) -> Interrupted:
    return Interrupted(clock=clock)


@pytest.mark.parametrize("count", [2, 6])
async def test_a_chunk_that_is_replaced_while_it_is_committed_is_published_as_it_is_then(
    held: GatedStore, count: int
) -> None:
    async with make_broker(held, limits=IN_STEPS) as queue:
        done = await stage(queue, "s", numbers(0, count))
        held.hold()
        replacing = await start(stage(queue, "s", numbers(10, 10 + count)))
        committing = await start(commit(queue, done))

        held.release()

        await finish(replacing)
        assert await finish(committing) == published(count)
        assert await payloads(queue) == [b"%d" % number for number in range(10, 10 + count)]
        assert await left(held) == {}


@pytest.mark.parametrize(("count", "space"), [(2, STAGES), (6, STAGES), (2, CHUNKS)])
async def test_a_version_that_another_server_publishes_meanwhile_is_a_repetition(
    store: Interrupted, count: int, space: str
) -> None:
    async with (
        make_broker(store, limits=IN_STEPS) as queue,
        make_broker(store, limits=IN_STEPS) as other,
    ):
        done = await stage(queue, "s", numbers(0, count))
        store.before[space] = [partial(commit, other, done)]

        assert await commit(queue, done) == DUPLICATE

        assert await payloads(other) == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("count", [2, 6])
async def test_what_another_server_aborts_meanwhile_is_not_published(
    store: Interrupted, count: int
) -> None:
    async with make_broker(store, limits=IN_STEPS) as queue, make_broker(store) as other:
        done = await stage(queue, "s", numbers(0, count))
        store.before[STAGES] = [partial(other.sink.abort, APP, 0, [done])]

        with pytest.raises(Conflict):
            await commit(queue, done)

        assert await queue.pop("orders") is None
        assert await queue.sink.last_version(APP) is None


async def test_what_is_published_while_the_sweeper_looks_is_not_swept(
    store: Interrupted, clock: ManualClock
) -> None:
    async with make_broker(store) as queue, make_broker(store, limits=IN_STEPS) as other:
        done = await stage(queue, "s", numbers(0, 6))
        clock.advance(25 * 3600)
        store.before[STAGES] = [partial(commit, other, done)]

        await queue.sweep()

        assert await payloads(other) == [b"%d" % number for number in range(6)]
        assert await left(store) == {}


@pytest.mark.parametrize("space", [APPS, DECISIONS, CHUNKS])
async def test_a_step_that_another_server_has_taken_is_not_taken_again(
    store: Interrupted, space: str
) -> None:
    async with (
        make_broker(store, limits=IN_STEPS) as queue,
        make_broker(store, limits=IN_STEPS) as other,
    ):
        done = await stage(queue, "s", numbers(0, 3), numbers(3, 6))
        goes_on = partial(commit, other, done)

        async def decided() -> None:
            store.before[space] = [goes_on]

        store.after[STAGES] = [decided]
        assert await commit(queue, done) == published(6)

        assert await payloads(other) == [b"%d" % number for number in range(6)]
        assert await left(store) == {}


async def test_a_queue_that_is_filled_meanwhile_refuses_the_whole(store: Interrupted) -> None:
    async with make_broker(store) as queue:
        await queue.queues.configure("orders", max_size=3)
        done = await stage(queue, "s", numbers(0, 3))
        store.before[CHUNKS] = [partial(queue.push, "orders", drafts(1, first=9))]

        with pytest.raises(QueueFull):
            await commit(queue, done)

        assert await payloads(queue) == [b"9"]
        assert await commit(queue, done) == published(3)


async def test_a_chunk_of_a_decided_version_that_is_missing_is_damage(store: Interrupted) -> None:
    async with make_broker(store, limits=IN_STEPS) as queue:
        done = await stage(queue, "s", numbers(0, 6))
        store.before[CHUNKS] = [partial(store.lose, CHUNKS)]

        with pytest.raises(Corrupted, match="missing"):
            await commit(queue, done)


@pytest.mark.parametrize("space", [STAGES, CHUNKS, DECISIONS, APPS])
async def test_an_entry_that_cannot_be_read_is_damage(store: Interrupted, space: str) -> None:
    async with make_broker(store, limits=IN_STEPS) as queue:
        done = await stage(queue, "s", numbers(0, 6))

        async def damage() -> None:
            for entry in await MemoryStore.list_entries(store, space, limit=9):
                await store.commit([put(space, entry.key, b"\xc1")])

        if space == APPS:
            await commit(queue)
        store.before[space] = [damage]

        with pytest.raises(Corrupted):
            await commit(queue, done, version=1 if space == APPS else 0)


async def test_a_chunk_that_two_stage_at_once_is_there_once(store: Interrupted) -> None:
    async with make_broker(store) as queue, make_broker(store) as other:
        store.after[STAGES] = [partial(stage, other, "s", numbers(3, 5))]

        done = await stage(queue, "s", numbers(0, 2))

        assert await left(store) == {STAGES: 1, CHUNKS: 1}
        await commit(queue, done)
        assert await payloads(queue) == [b"0", b"1"]


async def test_who_is_always_too_late_is_told_to_try_again(store: Interrupted) -> None:
    async with make_broker(store, limits=IN_STEPS) as queue:
        done = await stage(queue, "s", numbers(0, 3))
        large = await stage(queue, "large", numbers(0, 6), version=1, app="b")

        store.after[STAGES] = [partial(store.touch_all, STAGES)] * (TRIES + 1)
        with pytest.raises(Conflict, match="the same chunk"):
            await stage(queue, "s", numbers(0, 3))
        store.after[STAGES] = [partial(store.touch_all, STAGES)] * (TRIES + 1)
        with pytest.raises(Conflict, match="publishes"):
            await commit(queue, done)
        store.after[DECISIONS] = [partial(store.touch_all, APPS)] * (TRIES + 1)
        with pytest.raises(OutcomeUnknown, match="publishes"):
            await commit(queue, large, version=1, app="b")

        assert await queue.pop("orders") is None
        assert await commit(queue, done) == published(3)
        assert await commit(queue, large, version=1, app="b") == DUPLICATE


async def test_of_what_is_aborted_a_chunk_stays_that_was_staged_again(held: GatedStore) -> None:
    async with make_broker(held) as queue:
        done = await stage(queue, "s", numbers(0, 2), numbers(2, 4))
        held.hold()
        again = await start(stage(queue, "s", numbers(0, 2)))
        aborting = await start(queue.sink.abort(APP, 0, [done]))

        held.release()

        await finish(again)
        await finish(aborting)
        assert await left(held) == {STAGES: 1, CHUNKS: 1}
