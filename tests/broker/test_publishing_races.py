"""What others do to a sink's chunks between a look at them and the commit."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from skep.errors import Conflict
from skep.model.entry import Entry
from skep.store.memory import MemoryStore
from skep.testing.clock import ManualClock
from tests.broker.build import finish, make_broker, start
from tests.broker.held import HeldStore
from tests.broker.staged import (
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


class Interrupted(MemoryStore):
    """A store in which something happens before the next list is read."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def list_entries(self, space: str, **asked: Any) -> list[Entry]:
        if self.meanwhile:
            call, self.meanwhile = self.meanwhile, None
            await call()
        return await super().list_entries(space, **asked)


@pytest.fixture
def store(clock: ManualClock) -> Interrupted:
    return Interrupted(clock=clock)


@pytest.mark.parametrize("count", [2, 6])
async def test_a_chunk_that_is_replaced_while_it_is_committed_is_published_as_it_is_then(
    held: HeldStore, count: int
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


@pytest.mark.parametrize("count", [2, 6])
async def test_a_version_that_another_server_publishes_meanwhile_is_a_repetition(
    store: Interrupted, count: int
) -> None:
    async with (
        make_broker(store, limits=IN_STEPS) as queue,
        make_broker(store, limits=IN_STEPS) as other,
    ):
        done = await stage(queue, "s", numbers(0, count))
        store.meanwhile = partial(commit, other, done)

        assert await commit(queue, done) == DUPLICATE

        assert await payloads(other) == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("count", [2, 6])
async def test_what_another_server_aborts_meanwhile_is_not_published(
    store: Interrupted, count: int
) -> None:
    async with make_broker(store, limits=IN_STEPS) as queue, make_broker(store) as other:
        done = await stage(queue, "s", numbers(0, count))
        store.meanwhile = partial(other.staging.abort, APP, 0, [done])

        with pytest.raises(Conflict):
            await commit(queue, done)

        assert await queue.pop("orders") is None
        assert await queue.staging.last_version(APP) is None


async def test_what_is_published_while_the_sweeper_looks_is_not_swept(
    store: Interrupted, clock: ManualClock
) -> None:
    async with make_broker(store) as queue, make_broker(store, limits=IN_STEPS) as other:
        done = await stage(queue, "s", numbers(0, 6))
        clock.advance(25 * 3600)
        store.meanwhile = partial(commit, other, done)

        await queue.sweep()

        assert await payloads(other) == [b"%d" % number for number in range(6)]
        assert await left(store) == {}
