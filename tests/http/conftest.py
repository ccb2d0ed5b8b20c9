"""The door, as a fixture."""

from collections.abc import AsyncIterator

import pytest

from tests.http.door import Hand, door


@pytest.fixture
async def hand() -> AsyncIterator[Hand]:
    async with door() as hand:
        yield hand
