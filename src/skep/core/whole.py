"""Work that must not be left half done."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Finish what was begun, even if whoever asked has gone: memory must follow the store."""
    return await asyncio.shield(asyncio.ensure_future(work))
