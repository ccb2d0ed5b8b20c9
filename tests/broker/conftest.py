"""A broker for each store, on a clock that the test sets."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from skep import Broker
from skep.store.open import open_store
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.broker.build import make_broker
from tests.broker.held import HeldStore
from tests.databases import databases


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "rocksdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Store:
    """For tests that make their own broker, which closes it."""
    match request.param:
        case "memory":
            return open_store("memory://", clock=clock)
        case "rocksdb":
            return open_store(tmp_path / "store", clock=clock)
        case _:
            return open_store(databases().empty(), clock=clock)


@pytest.fixture
def held(clock: ManualClock) -> HeldStore:
    return HeldStore(clock=clock)


@pytest.fixture
async def queue(store: Store) -> AsyncIterator[Broker]:
    async with make_broker(store) as broker:
        yield broker
