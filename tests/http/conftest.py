"""The door, as a fixture; and for doors that a test makes itself, what is behind them."""

from collections.abc import AsyncIterator

import pytest

from skep import Broker
from skep.store.memory import MemoryStore
from skep.testing.clock import ManualClock
from tests.support.broker_builders import make_broker
from tests.support.http.json_client import Client, open_client
from tests.support.http.memory_app import Hand, door
from tests.support.http.two_queues import Scene, make_scene


@pytest.fixture
async def hand() -> AsyncIterator[Hand]:
    async with door() as hand:
        yield hand


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
async def broker(store: MemoryStore) -> AsyncIterator[Broker]:
    async with make_broker(store) as broker:
        yield broker


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[Client]:
    async with open_client(broker) as client:
        yield client


@pytest.fixture
async def scene(broker: Broker, store: MemoryStore, clock: ManualClock) -> Scene:
    return await make_scene(broker, store, clock)
