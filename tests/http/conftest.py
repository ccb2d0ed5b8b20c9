"""The door over a broker in memory, on a clock that the test sets."""

from collections.abc import AsyncIterator

import pytest

from skep import Broker
from skep.store.open import open_store
from skep.testing.clock import ManualClock
from tests.broker.build import make_broker
from tests.http.build import Client, open_client


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(clock: ManualClock) -> AsyncIterator[Broker]:
    async with make_broker(open_store("memory://", clock=clock)) as broker:
        yield broker


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[Client]:
    async with open_client(broker) as client:
        yield client
