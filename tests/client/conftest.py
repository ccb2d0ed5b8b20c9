"""A broker on a clock that the test sets, a server over it, and clients of both kinds."""

import socket
from collections.abc import AsyncIterator

import httpx
import pytest

import skep
from skep import AsyncClient, Broker, Client
from skep.client.retry import Retry
from skep.testing.clock import ManualClock
from tests.support.blocking_client import in_threads
from tests.support.faulty_transport import Faulty, FaultyBlocking, Gate, Weather
from tests.support.in_process_server import make_app, serving

AT_ONCE = Retry(attempts=4, max_delay=0)
"""Patience without pauses."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(clock: ManualClock) -> AsyncIterator[Broker]:
    async with skep.open("memory://", clock=clock, sweep_interval=None) as broker:
        yield broker


@pytest.fixture
def unused_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def weather() -> Weather:
    return Weather()


@pytest.fixture(params=["async", "sync"])
async def client(
    request: pytest.FixtureRequest, broker: Broker, weather: Weather
) -> AsyncIterator[AsyncClient]:
    """What every client does: the asynchronous one in process, the blocking one over a socket."""
    if request.param == "async":
        async with async_client(broker, weather) as client:
            yield client
        return
    async with serving(broker) as url:
        transport = FaultyBlocking(httpx.HTTPTransport(), weather)
        with Client(url, retry=AT_ONCE, transport=transport) as blocking:
            yield in_threads(blocking)


@pytest.fixture
async def queue(broker: Broker, weather: Weather) -> AsyncIterator[AsyncClient]:
    """An asynchronous client, for what only that one is used for."""
    async with async_client(broker, weather) as client:
        yield client


@pytest.fixture
def gate(broker: Broker, weather: Weather) -> Gate:
    return Gate(Faulty(httpx.ASGITransport(make_app(broker)), weather))


@pytest.fixture
async def gated(gate: Gate) -> AsyncIterator[AsyncClient]:
    """A client whose requests the test lets pass."""
    async with AsyncClient(retry=Retry(attempts=1), transport=gate) as client:
        yield client


def async_client(broker: Broker, weather: Weather, retry: Retry = AT_ONCE) -> AsyncClient:
    transport = Faulty(httpx.ASGITransport(make_app(broker)), weather)
    return AsyncClient("http://127.0.0.1", retry=retry, transport=transport)
