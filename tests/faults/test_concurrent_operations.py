"""Many operations at once on one broker: they end, they raise our errors only, they agree.

``SKEP_ROUNDS=500 pytest tests/faults/test_concurrent_operations.py`` runs longer, with other seeds.
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import skep
from skep import Ack, Broker, Delivery, Draft, Message, Push, Verdict
from skep.errors import QueueNotFound, SkepError
from skep.model.operation import Operation

ROUNDS = int(os.environ.get("SKEP_ROUNDS", "0"))
SEED = time.time_ns() if ROUNDS else 1
QUEUE = "orders"
GROUPS = ("billing", "mail")
PATIENCE = 10


class Crowd:
    """What many do at once, each something else."""

    def __init__(self, broker: Broker, random: Random) -> None:
        self._broker = broker
        self._random = random
        self._eras: defaultdict[str, int] = defaultdict(int)
        self._done: defaultdict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
        self._acts: list[tuple[int, Callable[[], Awaitable[object]]]] = [
            (8, self._push),
            (12, self._consume),
            (1, self._seek),
            (1, self._delete_group),
            (1, self._clear),
            (1, self._delete_message),
            (1, self._delete_queue),
            (1, self._replay),
            (1, self._cancel),
            (1, self._sweep),
        ]

    async def act(self, many: int) -> None:
        """Several acts at once, which all end."""
        weights, acts = zip(*self._acts, strict=True)
        async with asyncio.timeout(PATIENCE):
            chosen = self._random.choices(acts, weights, k=many)
            await asyncio.gather(*(self._try(act()) for act in chosen))

    async def _try(self, act: Awaitable[object]) -> None:
        # Somebody else was faster, which is what this is about.
        with suppress(SkepError):
            await act

    async def _push(self) -> None:
        await self._broker.push(
            QUEUE,
            [
                Draft(b"x", self._random.choice("abc"), self._random.choice([None, "i", "j"]))
                for _ in range(self._random.randrange(1, 4))
            ],
        )

    async def _consume(self) -> None:
        group = self._random.choice(GROUPS)
        era = self._eras[group]
        delivery = await self._broker.pop(
            QUEUE,
            group=group,
            batch=self._random.randrange(1, 5),
            partitions=self._random.randrange(1, 3),
            wait=self._random.choice([0, 0, 0.01]),
        )
        if delivery:
            places = {(message.partition, message.offset) for message in delivery.messages}
            if self._eras[group] == era:
                assert not places & self._done[group, era], "what was acked came again"
            await self._settle(delivery, era)

    async def _settle(self, delivery: Delivery, era: int) -> None:
        broker, messages = self._broker, delivery.messages
        mixed = self._random.sample(messages, len(messages))
        first, rest = mixed[:1], mixed[1:]
        fate = self._random.randrange(6)
        if fate == 0:
            await asyncio.gather(self._ack(delivery, era, first), self._ack(delivery, era, rest))
        elif fate == 1:
            await asyncio.gather(broker.extend(delivery, 2), self._ack(delivery, era, mixed))
        elif fate == 2:
            await broker.fail(delivery)
        elif fate == 3 and rest:
            await asyncio.gather(self._ack(delivery, era, first), broker.fail(delivery, rest))
        elif fate == 4:
            key = self._random.choice([None, str(self._random.random())])
            steps: list[Operation] = [Ack(delivery.lease_id or ""), Push(QUEUE, [Draft(b"y", "d")])]
            await broker.transact(steps, idempotency_key=key)
        elif fate == 5:
            await broker.ack(delivery)
            self._note(delivery, era, messages)

    async def _ack(self, delivery: Delivery, era: int, messages: list[Message]) -> None:
        if messages:
            await self._broker.ack(delivery, messages)
            self._note(delivery, era, messages)

    def _note(self, delivery: Delivery, era: int, messages: list[Message]) -> None:
        self._done[delivery.group, era] |= {(m.partition, m.offset) for m in messages}

    async def _seek(self) -> None:
        group = self._random.choice(GROUPS)
        with self._new_era(group):
            await self._broker.groups.seek(QUEUE, group, self._random.choice(["beginning", "end"]))

    async def _delete_group(self) -> None:
        group = self._random.choice(GROUPS)
        with self._new_era(group):
            await self._broker.groups.delete(QUEUE, group)

    async def _delete_queue(self) -> None:
        with self._new_era(*GROUPS):
            await self._broker.queues.delete(QUEUE)

    async def _clear(self) -> None:
        await self._broker.queues.clear(QUEUE)

    async def _delete_message(self) -> None:
        page = await self._broker.messages.list(QUEUE, limit=5)
        if page.messages:
            await self._broker.messages.delete(self._random.choice(page.messages).id)

    async def _replay(self) -> None:
        await self._broker.dead_letters.replay_all(QUEUE)

    async def _cancel(self) -> None:
        pop = asyncio.create_task(self._broker.pop(QUEUE, group="mail", batch=3))
        await asyncio.sleep(0)
        pop.cancel()
        await asyncio.gather(pop, return_exceptions=True)

    async def _sweep(self) -> None:
        await self._broker.sweep()

    def _new_era(self, *groups: str) -> "Era":
        return Era(self._eras, groups)


class Era:
    """While it lasts, and afterwards, what was acked before may come again."""

    def __init__(self, eras: defaultdict[str, int], groups: tuple[str, ...]) -> None:
        self._eras = eras
        self._groups = groups

    def __enter__(self) -> None:
        for group in self._groups:
            self._eras[group] += 1

    def __exit__(self, *_: object) -> None:
        self.__enter__()


def where(kind: str, path: Path) -> str | Path:
    return "memory://" if kind == "memory" else path / "store"


@pytest.mark.parametrize(("kind", "rounds"), [("memory", 60), ("rocksdb", 15)])
async def test_concurrent_operations_end_and_leave_consistent_counters(
    kind: str, rounds: int, tmp_path: Path
) -> None:
    for number in range(ROUNDS or rounds):
        random = Random(f"{SEED}-{number}")
        async with skep.open(where(kind, tmp_path / str(number)), sweep_interval=None) as broker:
            await broker.queues.configure(
                QUEUE,
                lease_time=1,
                retry_delay=1,
                retry_limit=1,
                retention_enabled=True,
                completed_retention_seconds=1,
            )
            crowd = Crowd(broker, random)
            for _ in range(30):
                await crowd.act(random.randrange(1, 12))

            await assert_that_counters_agree(broker)


async def assert_that_counters_agree(broker: Broker) -> None:
    try:
        stats = await broker.queues.stats(QUEUE)
    except QueueNotFound:
        return
    kept = sum(p.end - p.start for p in await broker.queues.partitions(QUEUE))
    behind = [
        sum(lag.end - lag.cursor for lag in await broker.groups.lag(QUEUE, group.group))
        for group in await broker.groups.list(QUEUE)
    ]
    assert stats.messages == kept
    assert stats.depth == max(behind, default=kept)


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("turns", [0, 2, 4, 7])
async def test_a_pop_that_meets_a_removal_under_way_comes_back(turns: int, tmp_path: Path) -> None:
    async with skep.open(tmp_path / "store") as broker:
        await broker.push(QUEUE, [Draft(b"x")])
        delivery = await broker.pop(QUEUE)
        assert delivery is not None
        again = [Verdict(m.partition_number, m.offset, "retry") for m in delivery.messages]
        await broker.settle(delivery, again)

    # A process that has just started has nothing in its cache, so it asks the store.
    async with skep.open(tmp_path / "store", sweep_interval=None) as broker:
        clearing = asyncio.create_task(broker.queues.clear(QUEUE))
        for _ in range(turns):
            await asyncio.sleep(0)
        delivery = await broker.pop(QUEUE)
        await clearing

    assert delivery is None or [message.payload for message in delivery.messages] == [b"x"]


async def test_a_seek_in_a_queue_that_is_deleted_meanwhile_says_so() -> None:
    async with skep.open("memory://", sweep_interval=None) as broker:
        await broker.push(QUEUE, [Draft(b"x"), Draft(b"y")])
        delivery = await broker.pop(QUEUE, group="mail")
        assert delivery is not None

        async with asyncio.timeout(PATIENCE):
            _, moved, _ = await asyncio.gather(
                broker.ack(delivery),
                broker.groups.seek(QUEUE, "mail", "beginning"),
                broker.queues.delete(QUEUE),
                return_exceptions=True,
            )

    assert moved == 1 or isinstance(moved, SkepError)


async def test_a_replay_from_a_queue_that_is_deleted_meanwhile_says_so() -> None:
    async with skep.open("memory://", sweep_interval=None) as broker:
        await broker.queues.configure(QUEUE, retry_limit=0)
        await broker.push(QUEUE, [Draft(b"x")])
        delivery = await broker.pop(QUEUE)
        assert delivery is not None
        await broker.fail(delivery)

        replayed, _ = await asyncio.gather(
            broker.dead_letters.replay_all(QUEUE),
            broker.queues.delete(QUEUE),
            return_exceptions=True,
        )

    assert replayed == 1 or isinstance(replayed, SkepError)
