"""A store on PostgreSQL with the database's own clock, and a way round it: plain SQL."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from skep import Broker
from skep.store.postgres.store import PostgresStore
from tests.support.broker_builders import make_broker
from tests.support.postgres_databases import databases


@pytest.fixture
def url() -> str:
    """A migrated database without rows."""
    return databases().empty()


@pytest.fixture
def bare_url() -> str:
    """A database with nothing in it."""
    return databases().create()


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    await store.close()


@pytest.fixture
async def queue(store: PostgresStore) -> AsyncIterator[Broker]:
    async with make_broker(store) as broker:
        yield broker


@pytest.fixture
async def sql(url: str) -> AsyncIterator[asyncpg.Connection]:
    """An operator's connection."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()
