"""A failover of PostgreSQL: everything is loaded again, and answers are as complete as before."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from skep import Broker, Draft
from skep.core.state import state_loader
from skep.store.postgres.store import PostgresStore
from tests.support.broker_builders import PATIENCE, payloads

PARTITIONS = [f"p{number}" for number in range(7)]
LAST = PARTITIONS[-1]


class PromotedStore(PostgresStore):
    """A store that finds another timeline when the test says so."""

    promoted = ""

    @property
    def timeline(self) -> str:
        return self.promoted or super().timeline

    async def accept_timeline(self, timeline: str) -> None:
        await super().accept_timeline(super().timeline)


@pytest.fixture
def store(url: str) -> PromotedStore:
    return PromotedStore(url)


@pytest.fixture
async def queue(
    url: str, store: PromotedStore, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Broker]:
    """A queue of several pages, with a group that has read nothing yet; one of two servers."""
    monkeypatch.setattr(state_loader, "PAGE", 2)
    async with (
        Broker(PostgresStore(url), sweep_interval=None, follow_interval=None),
        Broker(store, sweep_interval=None, follow_interval=None) as broker,
    ):
        await broker.push("orders", [Draft(b"1", name) for name in PARTITIONS])
        assert await broker.pop("orders", group="mail", partition="none") is None
        yield broker


async def test_numbers_of_a_large_queue_are_complete_after_a_failover(
    store: PromotedStore, queue: Broker
) -> None:
    store.promoted = "promoted"

    (mail,) = await queue.groups.list("orders")

    assert (mail.backlog, mail.partitions_with_backlog) == (len(PARTITIONS), len(PARTITIONS))


async def test_a_partition_that_is_not_loaded_again_yet_is_popped_after_a_failover(
    store: PromotedStore, queue: Broker
) -> None:
    store.promoted = "promoted"

    async with asyncio.timeout(PATIENCE):
        delivery = await queue.pop("orders", group="mail", partition=LAST)

    assert payloads(delivery) == [b"1"]
