"""The stores that the suite runs on. A new one is a line in ``open_store``."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from skep.model.queue import Partition, Queue
from skep.store.memory import MemoryStore
from skep.store.postgres.store import PostgresStore
from skep.store.protocol import Store
from skep.store.rocksdb.store import RocksStore
from skep.testing.clock import ManualClock
from tests.support.postgres_databases import databases
from tests.support.store_builders import make_partition, make_queue


def open_store(kind: str, path: Path, clock: ManualClock) -> Store:
    match kind:
        case "memory":
            return MemoryStore(clock=clock)
        case "rocksdb":
            return RocksStore(path, clock=clock)
        case _:
            return PostgresStore(databases().empty(), clock=clock)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "rocksdb", "postgres"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Store:
    return open_store(request.param, tmp_path / "store", clock)


@pytest.fixture
async def store(new_store: Store) -> AsyncIterator[Store]:
    yield new_store
    await new_store.close()


@pytest.fixture
async def orders(store: Store) -> Queue:
    return await make_queue(store, "orders")


@pytest.fixture
async def alice(store: Store, orders: Queue) -> Partition:
    return await make_partition(store, orders, "alice")


@pytest.fixture
async def bob(store: Store, orders: Queue) -> Partition:
    return await make_partition(store, orders, "bob")
