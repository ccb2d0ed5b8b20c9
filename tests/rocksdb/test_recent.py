"""The partitions that were written last are kept in memory, and no others."""

from pathlib import Path

import pytest

from skep.store.rocksdb import catalogue
from tests.support.rocksdb_builders import open_store
from tests.support.store_builders import commit_one, make_queue, payloads, push


async def test_the_partitions_written_last_are_kept_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "RECENT", 3)
    store = open_store(tmp_path)
    queue = await make_queue(store)
    alice, bob, carol, dave = await store.create_partitions(
        queue.number, ["alice", "bob", "carol", "dave"]
    )

    for partition in (bob, alice, bob, carol, alice):
        await commit_one(store, push(partition, b"x"))

    assert list(store._tables.catalogue._recent) == [bob.number, carol.number, alice.number]
    assert store._tables.catalogue.partition(queue.number, dave.number) == dave
    assert await payloads(store, bob) == [b"x", b"x"]
    await store.close()
