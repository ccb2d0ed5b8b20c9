"""The stores that the suite runs on. A new one is a line in ``open_store``."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from skep.model.queue import Partition, Queue
from skep.store.memory import MemoryStore
from skep.store.protocol import Store
from skep.store.rocksdb.store import RocksStore
from skep.testing.clock import ManualClock
from tests.store.build import make_partition, make_queue


def open_store(kind: str, path: Path, clock: ManualClock) -> Store:
    return MemoryStore(clock=clock) if kind == "memory" else RocksStore(path, clock=clock)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "rocksdb"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[Store]:
    store = open_store(request.param, tmp_path / "store", clock)
    yield store
    await store.close()


@pytest.fixture
async def orders(store: Store) -> Queue:
    return await make_queue(store, "orders")


@pytest.fixture
async def alice(store: Store, orders: Queue) -> Partition:
    return await make_partition(store, orders, "alice")


@pytest.fixture
async def bob(store: Store, orders: Queue) -> Partition:
    return await make_partition(store, orders, "bob")
