"""What is remembered to count against quotas."""

from collections.abc import Iterator

import pytest

from skep.core.sink import staged_bytes
from skep.core.sink.staged_bytes import MIN_CHUNK_BYTES, StagedBytes
from skep.core.state import quota
from skep.core.state.quota import Quotas, principal
from skep.errors import QuotaExceeded
from skep.http.auth.principal import Principal
from skep.model.quota import Quota
from skep.store.memory import MemoryStore

LIMITS = Quota(queues=10, staged_bytes=3 * MIN_CHUNK_BYTES)


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    token = principal.set(None)
    yield
    principal.reset(token)


def become(name: str) -> None:
    principal.set(Principal(None, frozenset(), id=name, quota=LIMITS))


async def test_chunks_without_bytes_count_too() -> None:
    become("key:a")
    staged = StagedBytes(MemoryStore())
    for number in range(3):
        await staged.add(f"chunk-{number}", 0)

    with pytest.raises(QuotaExceeded):
        await staged.add("chunk-3", 0)


async def test_counts_of_many_principals_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "MAX_COUNTS", 2)
    monkeypatch.setattr(staged_bytes, "MAX_COUNTS", 2)
    quotas, staged = Quotas({}), StagedBytes(MemoryStore())

    for number in range(5):
        become(f"key:{number}")
        with quotas.reserve("queues", "orders", ["orders"]):
            await staged.add("chunk", 1)

    assert len(quotas._counts) <= 2
    assert len(staged._counts) <= 2
