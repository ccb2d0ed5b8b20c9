"""Whole queues when several servers have committed to them, each through a lane of its own."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from skep import Broker, Draft
from skep.core.journal.journal import Heads, Selection
from skep.core.journal.scan import PartitionFilter
from skep.errors import Conflict, Invalid
from skep.model.journal import Position, Range, Step
from skep.store.postgres.store import PostgresStore
from skep.store.rocksdb import log
from skep.store.rocksdb.store import RocksStore
from tests.support.broker_builders import drafts, make_broker
from tests.support.postgres_databases import databases

LANES = 3
EVERYTHING = PartitionFilter()
ORDERS = Selection(queues=("orders",))

Push = Callable[[int, Sequence[Draft]], Awaitable[object]]


class Servers:
    """The first of some servers, and a way to push through any of them."""

    def __init__(self, first: Broker, push: Push) -> None:
        self.first = first
        self.push = push

    async def look(self, **asked: Any) -> Heads:
        return await self.first.journal.look(ORDERS, lambda _: True, **asked)

    async def steps(
        self,
        start: Position,
        end: Position,
        partitions: PartitionFilter = EVERYTHING,
        *,
        in_order: bool = True,
    ) -> list[Step]:
        number = (await self.first.queues.get("orders")).number
        begun = start.queues["orders"].lanes
        ranges = [
            Range(lane, begun.get(lane, 0), head)
            for lane, head in end.queues["orders"].lanes.items()
        ]
        reading = self.first.journal
        steps = await reading.read("orders", number, ranges, partitions, in_order=in_order)
        return [step async for step in steps]

    async def read(self, start: Position, end: Position, **asked: Any) -> list[tuple[str, int]]:
        """The messages between two positions, which all are there."""
        steps = await self.steps(start, end, **asked)
        assert not any(step.missing for step in steps)
        return [
            (run.name, offset)
            for step in steps
            for run in step.runs
            for offset in range(run.start, run.start + run.count)
        ]


@pytest.fixture(params=["rocksdb", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    return tmp_path / "store" if request.param == "rocksdb" else databases().empty()


@pytest.fixture
async def servers(place: str | Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Servers]:
    async with AsyncExitStack() as stack:
        if isinstance(place, str):
            brokers = [
                await stack.enter_async_context(make_broker(PostgresStore(place)))
                for _ in range(LANES)
            ]
            yield Servers(brokers[0], lambda lane, some: brokers[lane].push("orders", some))
            return
        # As it is when queues were moved from a store that several servers shared.
        store = RocksStore(place)
        broker = await stack.enter_async_context(make_broker(store))

        async def push(lane: int, some: Sequence[Draft]) -> None:
            store.lane = lane
            monkeypatch.setattr(log, "LANE", lane)
            await broker.push("orders", some)

        yield Servers(broker, push)


def random_drafts(random: Random) -> list[Draft]:
    return [Draft(b"x" * random.randint(0, 20), f"p{random.randrange(5)}")] * random.randint(1, 6)


@pytest.mark.parametrize("seed", range(6))
async def test_batches_of_any_size_hold_each_partition_in_order_and_come_to_the_end(
    servers: Servers, seed: int
) -> None:
    random = Random(seed)
    limit = random.choice((1, 3, 10, 40))
    asked = {"max_bytes": 10 * limit} if seed % 3 == 2 else {"max_rows": limit}
    await servers.push(0, drafts(1, "p0"))
    at = (await servers.look()).first
    offsets: dict[str, int] = {}

    async def read_batch() -> int:
        nonlocal at
        found = await servers.look(after=at, **asked)
        for name, offset in await servers.read(at, found.end):
            assert offset == offsets.get(name, 0)
            offsets[name] = offset + 1
        assert "max_rows" not in asked or found.rows <= limit
        assert found.rows or found.heads == at
        at = found.end
        return found.rows

    for _ in range(60):
        await servers.push(random.randrange(LANES), random_drafts(random))
        if random.random() < 0.4:
            await read_batch()
    while await read_batch():
        pass

    heads = (await servers.look()).heads.queues["orders"].lanes
    assert sum(offsets.values()) == sum(heads.values())


async def test_a_batch_is_as_large_as_it_may_be_though_one_lane_waits_for_another(
    servers: Servers,
) -> None:
    for lane in (0, 1, 0, 2):
        await servers.push(lane, drafts(10, "alice"))
    first = (await servers.look()).first

    found = await servers.look(max_rows=25)

    assert found.rows == 25
    assert await servers.read(first, found.end) == [("alice", offset) for offset in range(25)]


async def test_without_order_lanes_are_read_one_after_the_other(servers: Servers) -> None:
    for lane in (0, 1, 0):
        await servers.push(lane, drafts(2, "alice"))
    found = await servers.look()

    read = await servers.read(found.first, found.heads, in_order=False)

    assert read == [("alice", offset) for offset in (0, 1, 4, 5, 2, 3)]


async def test_each_share_of_the_partitions_is_in_order_and_together_they_are_all(
    servers: Servers,
) -> None:
    random = Random(1)
    for _ in range(30):
        await servers.push(random.randrange(LANES), random_drafts(random))
    found = await servers.look()

    shares = [
        await servers.read(found.first, found.heads, partitions=PartitionFilter(share=(index, 3)))
        for index in range(3)
    ]

    everything = await servers.read(found.first, found.heads)
    assert sorted(place for share in shares for place in share) == sorted(everything)
    for share in shares:
        assert [place for place in everything if place in set(share)] == share


async def test_progress_names_the_lanes_that_moved_and_ends_where_the_ranges_do(
    servers: Servers,
) -> None:
    for lane in (0, 1, 0, 2):
        await servers.push(lane, drafts(3, "alice"))
    found = await servers.look()

    steps = await servers.steps(found.first, found.heads)

    reached = {lane: at for step in steps for lane, at in step.lanes.items()}
    assert reached == found.heads.queues["orders"].lanes


async def test_what_retention_removed_is_named_in_order_too(servers: Servers) -> None:
    for lane, name in ((0, "alice"), (1, "alice"), (1, "bob"), (0, "bob"), (2, "alice")):
        await servers.push(lane, drafts(2, name))
    found = await servers.look()
    await servers.first.catch_up()
    await servers.first.queues.clear("orders", partition="alice")

    steps = await servers.steps(found.first, found.heads)

    lanes = sorted(found.heads.queues["orders"].lanes)
    runs = [(run.name, run.start, run.count) for step in steps for run in step.runs]
    assert runs == [("bob", 0, 2), ("bob", 2, 2)]
    missing = {(each.lane, each.start, each.end) for step in steps for each in step.missing}
    assert missing == {(lane, 0, 2) for lane in lanes}


async def test_a_limited_batch_passes_over_what_retention_removed(servers: Servers) -> None:
    for lane in (0, 1, 2):
        await servers.push(lane, drafts(5, "alice"))
    before = (await servers.look()).first
    await servers.first.catch_up()
    await servers.first.queues.clear("orders")
    at, batches = before, 0
    while (found := await servers.look(after=at, max_rows=2)).rows:
        at, batches = found.end, batches + 1

    assert at == found.heads
    assert batches <= 9


async def test_a_lane_that_is_asked_for_twice_cannot_be_in_order(servers: Servers) -> None:
    await servers.push(0, drafts(4))
    number = (await servers.first.queues.get("orders")).number
    (lane,) = (await servers.look()).heads.queues["orders"].lanes
    twice = [Range(lane, 0, 1), Range(lane, 2, 3)]

    with pytest.raises(Invalid) as refused:
        await servers.first.journal.read("orders", number, twice, PartitionFilter(), in_order=True)

    assert refused.value.field == "ranges"


async def test_what_was_never_committed_is_refused_and_not_taken_for_removed(
    servers: Servers,
) -> None:
    await servers.push(0, drafts(4))
    number = (await servers.first.queues.get("orders")).number
    (lane,) = (await servers.look()).heads.queues["orders"].lanes

    for beyond in (Range(lane, 0, 5), Range(lane + 7, 0, 1)):
        with pytest.raises(Conflict, match="restored backup"):
            await servers.first.journal.read("orders", number, [beyond], PartitionFilter())
