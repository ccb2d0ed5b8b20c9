"""Loading partitions page by page, from a store that lets the test decide when a page arrives."""

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from skep import Broker, Draft
from skep.core import aio as fairness
from skep.core.state import background_loader as loader, state_loader
from skep.errors import Forbidden, Unavailable
from skep.model.change import Applied, Change, Commit
from skep.model.queue import Partition, Subscription
from skep.store.memory import MemoryStore
from skep.store.protocol import StoredConsumer
from skep.testing.clock import ManualClock
from tests.support.broker_builders import PATIENCE, make_broker, moment, payloads, start

PARTITIONS = [f"p{number}" for number in range(5)]
LAST = PARTITIONS[-1]
NEVER = 3600


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_loader, "PAGE", 2)
    monkeypatch.setattr(loader, "_RETRY_SECONDS", 0)


class PagedStore(MemoryStore):
    """A store in memory whose pages can be held back, or fail; the first of a queue never."""

    def __init__(self, *, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.failing: set[str] = set()
        """Queues whose pages cannot be read."""
        self.pages = asyncio.Event()
        """Cleared while pages are held back."""
        self.pages.set()
        self.subscribed = asyncio.Event()
        self.refused = 0
        """Changes that were decided on something else than what is stored."""

    async def partitions(
        self, queue: int, *, after: Partition | None = None, limit: int | None = None
    ) -> Iterable[Partition]:
        if after is not None:
            await self.pages.wait()
            if self._queues[queue].name in self.failing:
                raise Unavailable("no connection")
        return await super().partitions(queue, after=after, limit=limit)

    async def subscribe(
        self, subscription: Subscription, consumers: Sequence[StoredConsumer]
    ) -> bool:
        done = await super().subscribe(subscription, consumers)
        self.subscribed.set()
        return done

    async def commit(self, changes: Sequence[Change]) -> Commit:
        done = await super().commit(changes)
        self.refused += sum(not isinstance(outcome, Applied) for outcome in done.outcomes)
        return done


async def fill(queue: Broker, name: str, partitions: Sequence[str] = PARTITIONS) -> None:
    """A message in each partition, which group ``crm`` does not read and ``mail`` does."""
    await queue.push(name, [Draft(b"old", partition) for partition in partitions])
    assert await queue.pop(name, group="crm", subscription_mode="new") is None
    assert await queue.pop(name, group="mail", partition="none") is None


@pytest.fixture
async def paged(clock: ManualClock) -> PagedStore:
    """With two queues of three pages each."""
    store = PagedStore(clock=clock)
    async with make_broker(store) as queue:
        await fill(queue, "first")
        await fill(queue, "second")
    return store


async def forbid() -> None:
    raise Forbidden("the key was revoked meanwhile")


async def leased(queue: Broker, name: str, group: str) -> list[str]:
    """The partitions that a group has leased."""
    return [each.partition for each in await queue.groups.lag(name, group) if each.leased]


async def test_a_page_that_could_not_be_read_is_read_again(paged: PagedStore) -> None:
    paged.failing = {"first"}
    async with make_broker(paged) as queue, asyncio.timeout(PATIENCE):
        with pytest.raises(Unavailable):
            await queue.groups.list("first")

        paged.failing.clear()

        assert payloads(await queue.pop("first", group="mail", partition=LAST)) == [b"old"]
        assert [each.backlog for each in await queue.groups.list("first")] == [0, len(PARTITIONS)]


async def test_a_queue_that_cannot_be_read_does_not_keep_others_from_being_loaded(
    paged: PagedStore,
) -> None:
    paged.failing = {"first"}
    async with make_broker(paged) as queue, asyncio.timeout(PATIENCE):
        delivery = await queue.pop("second", group="mail", partition=LAST)

        assert payloads(delivery) == [b"old"]
        assert not queue.loaded


async def test_a_push_to_a_stored_partition_that_is_not_loaded_keeps_the_cursors_in_it(
    paged: PagedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "_RETRY_SECONDS", NEVER)
    paged.failing = {"first"}
    async with make_broker(paged) as queue, asyncio.timeout(PATIENCE):
        await queue.push("first", [Draft(b"new", LAST)])

        crm = await queue.pop("first", group="crm", batch=10, partition=LAST)
        mail = await queue.pop("first", group="mail", batch=10, partition=LAST)

        assert (payloads(crm), payloads(mail)) == ([b"new"], [b"old", b"new"])
        assert paged.refused == 0
        assert not queue.loaded


async def test_a_pop_that_waited_for_a_partition_to_be_loaded_is_authorized_again(
    paged: PagedStore,
) -> None:
    paged.pages.clear()
    async with make_broker(paged) as queue, asyncio.timeout(PATIENCE):
        pop = await start(queue.pop("first", group="mail", partition=LAST, authorize=forbid))
        assert not pop.done()

        paged.pages.set()

        with pytest.raises(Forbidden):
            await pop
        assert await leased(queue, "first", "mail") == []


async def test_a_first_contact_that_waited_until_all_is_loaded_is_authorized_again(
    paged: PagedStore, clock: ManualClock
) -> None:
    paged.pages.clear()
    async with make_broker(paged) as queue, asyncio.timeout(PATIENCE):
        start_at = moment(clock, -60)
        pop = await start(
            queue.pop("first", group="new", subscription_from=start_at, authorize=forbid)
        )
        assert not pop.done()

        paged.pages.set()

        with pytest.raises(Forbidden):
            await pop
        assert await leased(queue, "first", "new") == []


async def test_nothing_is_decided_on_cursors_of_a_new_group_that_are_not_known_yet(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PagedStore(clock=clock)
    many = [f"p{number:03}" for number in range(100)]
    async with make_broker(store) as queue, asyncio.timeout(PATIENCE):
        await queue.push("orders", [Draft(b"old", name) for name in many])
        clock.advance(60)
        start_at = moment(clock)
        await queue.push("orders", [Draft(b"new", name) for name in many])
        clock.advance(60)
        monkeypatch.setattr(fairness, "_FREE_SECONDS", 0)
        monkeypatch.setattr(fairness, "SLICE_SECONDS", 0)

        async def pop(partition: str) -> list[bytes]:
            return payloads(
                await queue.pop(
                    "orders", group="crm", partition=partition, subscription_from=start_at
                )
            )

        first = asyncio.create_task(pop(many[0]))
        await store.subscribed.wait()
        second = asyncio.create_task(pop(many[-2]))
        await queue.push("orders", [Draft(b"newer", many[-1])])
        assert not first.done()

        assert [await first, await second] == [[b"new"], [b"new"]]
        assert store.refused == 0
