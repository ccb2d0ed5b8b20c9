"""Servers that expect the same of an entry: one of them gets it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from skep.model.change import Applied, Change, EntryUpdate, Stale
from skep.store.postgres.store import PostgresStore

TIMES = 30


@pytest.fixture
async def other(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    await store.close()


def put(*keys: str, expected: int | None) -> Change:
    return Change(
        entries=tuple(EntryUpdate(space="a", key=k, value=b"v", expected=expected) for k in keys)
    )


async def race(stores: list[PostgresStore], change: Change) -> list[object]:
    done = await asyncio.gather(*(each.commit([change]) for each in stores))
    return [commit.outcomes[0] for commit in done]


async def test_of_two_servers_that_make_an_entry_at_once_one_does(
    store: PostgresStore, other: PostgresStore
) -> None:
    for number in range(TIMES):
        outcomes = await race([store, other], put(f"k{number}", expected=0))

        assert sorted(type(each).__name__ for each in outcomes) == ["Applied", "Stale"]


async def test_of_two_servers_that_replace_an_entry_at_once_one_does(
    store: PostgresStore, other: PostgresStore
) -> None:
    await store.commit([put("k", expected=0)])
    for _ in range(TIMES):
        (entry,) = await store.find_entries("a", ["k"])

        outcomes = await race([store, other], put("k", expected=entry.version))

        assert sorted(type(each).__name__ for each in outcomes) == ["Applied", "Stale"]


async def test_servers_that_write_the_same_entries_in_other_orders_do_not_stop_each_other(
    store: PostgresStore, other: PostgresStore
) -> None:
    names = [f"k{number}" for number in range(20)]
    await store.commit([put(*names, expected=0)])
    guard = EntryUpdate(space="a", key="never", value=None, expected=0)

    async with asyncio.timeout(TIMES):
        for _ in range(TIMES):
            forth, back = await asyncio.gather(
                store.commit([Change(entries=(guard, *put(*names, expected=None).entries))]),
                other.commit([Change(entries=(guard, *put(*names[::-1], expected=None).entries))]),
            )
            assert [forth.outcomes, back.outcomes] == [[Applied()], [Applied()]]

    assert (await store.commit([put("k0", expected=1)])).outcomes == [Stale()]
