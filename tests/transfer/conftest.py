"""Two stores, a full one and an empty one, of each kind."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from skep.store.bulk_load import Transferable
from skep.store.postgres.store import PostgresStore
from skep.store.rocksdb.store import RocksStore
from skep.testing.clock import ManualClock
from tests.support.postgres_databases import databases
from tests.support.transfer_content import TransferContent, fill_store

Open: TypeAlias = Callable[[], Transferable]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(
    params=["rocksdb-postgres", "postgres-rocksdb", "rocksdb-rocksdb", "postgres-postgres"]
)
def kinds(request: pytest.FixtureRequest) -> list[str]:
    return str(request.param).split("-")


@pytest.fixture
def open_source(kinds: list[str], tmp_path: Path, clock: ManualClock) -> Open:
    if kinds[0] == "rocksdb":
        return lambda: RocksStore(tmp_path / "source", clock=clock)
    url = databases().empty()
    return lambda: PostgresStore(url, clock=clock)


@pytest.fixture
def open_target(kinds: list[str], tmp_path: Path, clock: ManualClock) -> Open:
    """One that has never given a number."""
    if kinds[1] == "rocksdb":
        return lambda: RocksStore(tmp_path / "target", clock=clock)
    url = databases().create()
    return lambda: PostgresStore(url, clock=clock)


@pytest.fixture
async def told(open_source: Open, clock: ManualClock) -> TransferContent:
    """The story has happened in the source."""
    return await fill_store(open_source(), clock)


@pytest.fixture
async def source(told: TransferContent, open_source: Open) -> AsyncIterator[Transferable]:
    store = open_source()
    yield store
    await store.close()


@pytest.fixture
async def target(open_target: Open) -> AsyncIterator[Transferable]:
    store = open_target()
    yield store
    await store.close()
