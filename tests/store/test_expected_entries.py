"""Entries that must be as somebody has read them, checked on every store."""

import pytest

from skep.model.change import Applied, Change, EntryUpdate, Stale
from skep.model.queue import Partition
from skep.store.protocol import Store
from tests.support.store_builders import APPLIED, append, columns, commit_one, payloads


def put(key: str, value: bytes | None, expected: int | None = None) -> Change:
    return Change(entries=(EntryUpdate(space="a", key=key, value=value, expected=expected),))


async def value(store: Store, key: str = "k") -> bytes | None:
    found = await store.find_entries("a", [key])
    return found[0].value if found else None


async def version(store: Store, key: str = "k") -> int:
    (found,) = await store.find_entries("a", [key])
    return found.version


async def test_an_entry_that_must_not_exist_is_made_once(store: Store) -> None:
    assert await commit_one(store, put("k", b"1", expected=0)) == APPLIED

    assert await commit_one(store, put("k", b"2", expected=0)) == Stale()

    assert await value(store) == b"1"


async def test_an_entry_is_replaced_if_it_has_the_version_expected(store: Store) -> None:
    await store.commit([put("k", b"1")])
    known = await version(store)

    assert await commit_one(store, put("k", b"2", expected=known)) == APPLIED
    assert await commit_one(store, put("k", b"3", expected=known)) == Stale()

    assert await value(store) == b"2"


@pytest.mark.parametrize("wanted", [1, 1 << 40])
async def test_an_entry_that_is_not_there_has_no_version(store: Store, wanted: int) -> None:
    assert await commit_one(store, put("k", b"1", expected=wanted)) == Stale()

    assert await value(store) is None


async def test_an_entry_is_removed_only_in_the_version_expected(store: Store) -> None:
    await store.commit([put("k", b"1")])
    known = await version(store)

    assert await commit_one(store, put("k", None, expected=known + 1)) == Stale()
    assert await value(store) == b"1"
    assert await commit_one(store, put("k", None, expected=known)) == APPLIED

    assert await value(store) is None


async def test_an_entry_that_came_back_is_not_the_one_that_was_expected(store: Store) -> None:
    await store.commit([put("k", b"1")])
    known = await version(store)
    await store.commit([put("k", None)])
    await store.commit([put("k", b"1")])

    assert await commit_one(store, put("k", b"2", expected=known)) == Stale()


async def test_of_two_changes_in_one_commit_that_expect_the_same_the_first_wins(
    store: Store,
) -> None:
    made = await store.commit([put("k", b"1", expected=0), put("k", b"2", expected=0)])
    known = await version(store)
    moved = await store.commit([put("k", b"3", expected=known), put("k", None, expected=known)])

    assert made.outcomes == moved.outcomes == [APPLIED, Stale()]
    assert await value(store) == b"3"


async def test_a_change_sees_that_one_before_it_in_the_commit_removed_the_entry(
    store: Store,
) -> None:
    await store.commit([put("k", b"1")])
    known = await version(store)

    done = await store.commit([put("k", None, expected=known), put("k", b"2", expected=0)])

    assert done.outcomes == [APPLIED, APPLIED]
    assert await value(store) == b"2"


async def test_who_expects_nothing_may_write_what_another_expected_in_the_same_commit(
    store: Store,
) -> None:
    done = await store.commit([put("k", b"1", expected=0), put("k", b"2"), put("j", b"3")])

    assert done.outcomes == [APPLIED, APPLIED, APPLIED]
    assert (await value(store), await value(store, "j")) == (b"2", b"3")


async def test_nothing_of_a_change_happens_whose_entry_is_not_as_expected(
    store: Store, alice: Partition
) -> None:
    await store.commit([put("k", b"1")])
    change = Change(
        appends=(append(alice, columns(b"m")),),
        entries=(
            EntryUpdate(space="a", key="other", value=b"2"),
            EntryUpdate(space="a", key="k", value=b"2", expected=0),
        ),
    )

    refused, applied = (await store.commit([change, put("j", b"3", expected=0)])).outcomes

    assert refused == Stale()
    assert isinstance(applied, Applied)
    assert await payloads(store, alice) == []
    assert (await value(store), await value(store, "other")) == (b"1", None)
