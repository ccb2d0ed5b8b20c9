"""A broker for each store, on a clock that the test sets."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from inspect import signature
from pathlib import Path

import pytest

from skep import Broker
from skep.store.open import open_store
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.alternating_broker import alternating
from tests.support.broker_builders import make_broker
from tests.support.gated_store import GatedStore
from tests.support.postgres_databases import databases
from tests.support.restartable_broker import Restarts


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


SERVERS = "servers"
"""Two servers on one PostgreSQL, which take calls in turn."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test runs on each store. What asks for a queue only also runs on two servers."""
    if "store" in metafunc.fixturenames:
        asked = signature(metafunc.function).parameters
        alone = metafunc.definition.get_closest_marker("one_server") or "store" in asked
        servers = [SERVERS] if "queue" in asked and not alone else []
        metafunc.parametrize("store", ["memory", "rocksdb", "postgres", *servers], indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Store:
    """For tests that make their own broker, which closes it."""
    match request.param:
        case "memory":
            return open_store("memory://", clock=clock)
        case "rocksdb":
            return open_store(tmp_path / "store", clock=clock)
        case _:
            return open_store(request.getfixturevalue("url"), clock=clock)


@pytest.fixture
def url() -> str:
    return databases().empty()


@pytest.fixture
def held(clock: ManualClock) -> GatedStore:
    return GatedStore(clock=clock)


@pytest.fixture
async def queue(
    request: pytest.FixtureRequest, store: Store, clock: ManualClock
) -> AsyncIterator[Broker]:
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(make_broker(store))
        if f"[{SERVERS}" in request.node.name or f"-{SERVERS}" in request.node.name:
            second = open_store(request.getfixturevalue("url"), clock=clock)
            other = await stack.enter_async_context(make_broker(second))
            yield alternating(other, broker)
        else:
            yield broker


@pytest.fixture(params=["rocksdb", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Restarts:
    url = tmp_path / "store" if request.param == "rocksdb" else databases().empty()
    return Restarts(url, clock)
