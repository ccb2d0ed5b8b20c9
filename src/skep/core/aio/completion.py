"""Work that must not be left half done, nor be done twice at once."""

import asyncio
from collections.abc import Coroutine, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Finish what was begun, even if whoever asked has gone: memory must follow the store."""
    return await asyncio.shield(asyncio.ensure_future(work))


class KeyedLocks(Generic[K]):
    """A lock for each key, as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[K, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: K) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())
