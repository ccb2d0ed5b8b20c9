"""One process owns a store at a time."""

import asyncio
from pathlib import Path

import pytest
from rocksdict import WriteBatch

from skep.errors import Corrupted, SkepError, StoreLocked
from skep.store.rocksdb import keys
from skep.store.rocksdb.database import Database
from tests.support.broker_builders import drafts, make_broker, pop
from tests.support.rocksdb_builders import count_numbers, open_store, push_numbers, start
from tests.support.rocksdb_child_process import child


def damage(path: Path, kind: bytes) -> None:
    """Damage all records of a kind."""
    database = Database(path)
    batch = WriteBatch(raw_mode=True)
    for key, value in list(database.scan(kind, keys.after(kind))):
        batch.put(key, value[:-1] + bytes([value[-1] ^ 1]))
    database.write(batch)
    database.close()


def test_a_store_that_another_process_has_open_is_refused_and_its_owner_named(
    tmp_path: Path,
) -> None:
    with child("hold", tmp_path / "store") as owner, pytest.raises(StoreLocked) as refused:
        open_store(tmp_path / "store")

    assert f"process {owner.pid} " in str(refused.value)
    assert str(tmp_path / "store") in str(refused.value)


def test_whoever_is_refused_does_not_make_the_owner_unknown(tmp_path: Path) -> None:
    refusals: list[str] = []

    with child("hold", tmp_path / "store") as owner:
        for _ in range(2):
            with pytest.raises(StoreLocked) as refused:
                open_store(tmp_path / "store")
            refusals.append(refused.value.holder)

    assert [holder.split()[1] for holder in refusals] == [str(owner.pid)] * 2


async def test_a_store_opens_after_its_owner_was_killed(tmp_path: Path) -> None:
    with child("hold", tmp_path / "store") as owner:
        owner.kill()
        owner.wait()

        store = open_store(tmp_path / "store")

    await push_numbers(store, await start(store), 0, 1)
    await store.close()


async def test_the_same_process_cannot_open_a_store_twice(tmp_path: Path) -> None:
    store = open_store(tmp_path)

    with pytest.raises(StoreLocked, match=r"process \d+ on"):
        open_store(tmp_path)

    await push_numbers(store, await start(store), 0, 3)
    await store.close()
    assert await count_numbers(tmp_path) == 3


@pytest.mark.parametrize("kind", ["queues", "consumers"])
async def test_a_store_that_could_not_be_loaded_is_let_go(tmp_path: Path, kind: str) -> None:
    async with make_broker(open_store(tmp_path)) as queue:
        await queue.push("orders", drafts(1))
        await pop(queue)
    damage(tmp_path, kind[0].encode())

    refusals: list[SkepError] = []
    for _ in range(2):
        with pytest.raises(SkepError) as refused:
            async with make_broker(open_store(tmp_path)):
                pass
        refusals.append(refused.value)

    assert [type(refusal) for refusal in refusals] == [Corrupted, Corrupted]


async def test_a_closing_that_was_cancelled_goes_on_and_the_next_one_waits_for_it(
    tmp_path: Path,
) -> None:
    queue = await make_broker(open_store(tmp_path)).__aenter__()
    await queue.push("orders", drafts(1))
    push = asyncio.create_task(queue.push("orders", drafts(1)))
    await asyncio.sleep(0)
    closing = asyncio.create_task(queue.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])

    await queue.close()

    assert closing.cancelled()
    assert [receipt.offset for receipt in await push] == [1]
    await open_store(tmp_path).close()


async def test_a_closed_store_can_be_opened_again(tmp_path: Path) -> None:
    for _ in range(3):
        store = open_store(tmp_path)
        await store.close()

    assert (tmp_path / "OWNER").read_text() == ""
