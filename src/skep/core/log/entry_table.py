"""Typed records over the entries of the store: msgpack values by space and key."""

from collections.abc import AsyncIterator
from typing import Generic, TypeVar

import msgspec

from skep.core.aio import next_slice, yielding
from skep.errors import Corrupted
from skep.model.change import EntryUpdate
from skep.model.entry import Entry
from skep.store.protocol import EntryStore

PAGE = 1000

T = TypeVar("T")


class EntryTable(Generic[T]):
    """The records of one space, each with the version of its entry."""

    def __init__(self, store: EntryStore, space: str, kind: type[T]) -> None:
        self._store = store
        self._space = space
        self._kind = kind

    async def find(self, key: str) -> tuple[T | None, int]:
        """A record and the version of its entry; None and 0 if it does not exist."""
        entries = await self._store.find_entries(self._space, [key])
        return (self.decode(entries[0]), entries[0].version) if entries else (None, 0)

    async def all(self) -> list[T]:
        """Every record, by key."""
        entries = await read_entries(self._store, self._space)
        return [self.decode(entry) async for entry in yielding(entries)]

    def put(self, key: str, record: T, expected: int | None = None) -> EntryUpdate:
        """The update that stores a record, if its entry still has the version ``expected``."""
        value = msgspec.msgpack.encode(record)
        return EntryUpdate(space=self._space, key=key, value=value, expected=expected)

    def delete(self, key: str, expected: int | None = None) -> EntryUpdate:
        """The update that deletes a record, if its entry still has the version ``expected``."""
        return EntryUpdate(space=self._space, key=key, value=None, expected=expected)

    def decode(self, entry: Entry) -> T:
        return decode_entry(entry, self._kind)


async def entry_pages(
    store: EntryStore, space: str, prefix: str = ""
) -> AsyncIterator[list[Entry]]:
    """The entries whose keys begin with ``prefix``, in order; other tasks run between pages."""
    after = ""
    while page := list(await store.list_entries(space, prefix=prefix, after=after, limit=PAGE)):
        yield page
        if len(page) < PAGE:
            return
        after = page[-1].key
        await next_slice()


async def read_entries(store: EntryStore, space: str, prefix: str = "") -> list[Entry]:
    """All entries of a space whose keys begin with ``prefix``, in order."""
    return [entry async for page in entry_pages(store, space, prefix) for entry in page]


def decode_entry(entry: Entry, kind: type[T]) -> T:
    """The record of an entry; raises ``Corrupted`` if it cannot be decoded."""
    try:
        return msgspec.msgpack.decode(entry.value, type=kind)
    except msgspec.MsgspecError as error:
        raise Corrupted(f"entry {entry.key!r} of {entry.space} is damaged: {error}") from None
