"""The door, as a fixture; and for doors that a test makes itself, what is behind them."""

from collections.abc import AsyncIterator

import pytest

from skep import Broker
from skep.store.memory import MemoryStore
from skep.testing.clock import ManualClock
from tests.support.broker_builders import make_broker
from tests.support.http.json_client import Client, open_client
from tests.support.http.memory_app import HttpCaller, open_memory_app
from tests.support.http.two_queues import TwoQueues, make_two_queues


@pytest.fixture
async def hand() -> AsyncIterator[HttpCaller]:
    async with open_memory_app() as hand:
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
async def scene(broker: Broker, store: MemoryStore, clock: ManualClock) -> TwoQueues:
    return await make_two_queues(broker, store, clock)
