"""One process owns a store at a time."""

from pathlib import Path

import pytest

from skep.errors import StoreLocked
from tests.rocksdb.build import count_numbers, open_store, push_numbers, start
from tests.rocksdb.process import child


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


async def test_a_closed_store_can_be_opened_again(tmp_path: Path) -> None:
    for _ in range(3):
        store = open_store(tmp_path)
        await store.close()

    assert (tmp_path / "OWNER").read_text() == ""
