"""Long work in small steps."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

T = TypeVar("T")
STEP = 500


async def in_steps(things: Sequence[T], step: int = STEP) -> AsyncIterator[T]:
    """One after the other; others have their turn every now and then."""
    for index, thing in enumerate(things, 1):
        yield thing
        if index % step == 0:
            await asyncio.sleep(0)
