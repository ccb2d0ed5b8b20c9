"""Small facts beside the log, checked on every store."""

from skep.model.change import Change, EntryUpdate
from skep.store.protocol import Store


def put(key: str, value: bytes | None, space: str = "a") -> Change:
    return Change(entries=(EntryUpdate(space=space, key=key, value=value),))


async def test_an_entry_comes_back_as_it_was_put(store: Store) -> None:
    await store.commit([put("k", b"\x00\xff")])

    (entry,) = await store.find_entries("a", ["k"])

    assert (entry.space, entry.key, entry.value) == ("a", "k", b"\x00\xff")


async def test_the_last_value_of_a_key_wins_and_has_a_higher_version(store: Store) -> None:
    await store.commit([put("k", b"1"), put("k", b"2")])
    (before,) = await store.find_entries("a", ["k"])

    await store.commit([put("k", b"3")])

    (after,) = await store.find_entries("a", ["k"])
    assert (before.value, after.value) == (b"2", b"3")
    assert after.version > before.version


async def test_an_entry_without_a_value_is_gone(store: Store) -> None:
    await store.commit([put("k", b"1")])

    await store.commit([put("k", None), put("never", None)])

    assert await store.find_entries("a", ["k", "never"]) == []


async def test_entries_are_listed_in_order_from_behind_a_key(store: Store) -> None:
    await store.commit([put(key, b"") for key in ("b2", "b10", "a", "c", "b\u00e9", "b")])

    found = await store.list_entries("a", prefix="b", after="b", limit=2)

    assert [entry.key for entry in found] == ["b10", "b2"]


async def test_a_prefix_is_a_text_and_not_a_pattern(store: Store) -> None:
    await store.commit([put(key, b"") for key in ("a%b", "axb", "a_b", "a%")])

    found = await store.list_entries("a", prefix="a%", limit=10)

    assert [entry.key for entry in found] == ["a%", "a%b"]


async def test_spaces_do_not_see_each_other(store: Store) -> None:
    await store.commit([put("k", b"1"), put("k", b"2", space="b"), put("k", b"3", space="ab")])

    assert [e.value for e in await store.list_entries("a", limit=9)] == [b"1"]
    assert [e.value for e in await store.list_entries("b", limit=9)] == [b"2"]
