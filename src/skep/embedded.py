"""The whole queue in one process: opening it, and putting a backup of it in place."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from skep.core.broker import Broker
from skep.core.limits import Limits
from skep.core.log.encryption import KeyRing
from skep.store.clock import Clock
from skep.store.open import open_store, restore_store


def restore(backup: str | Path, path: str | Path) -> None:
    """Put a backup in place at ``path``, which must not exist, after checking all of it."""
    restore_store(Path(backup), Path(path))


@asynccontextmanager
async def open(
    store: str | Path,
    *,
    keys: KeyRing | None = None,
    limits: Limits | None = None,
    clock: Clock | None = None,
    sweep_interval: float | None = 5.0,
) -> AsyncIterator[Broker]:
    """A broker over the store at a path, in ``postgresql://…`` or ``memory://``.

    Usage::

        async with skep.open("data") as queue:
            await queue.push("orders", [Draft(b"...")])

    ``keys`` encrypt the queues that ask for it. ``sweep_interval`` is how often, in seconds,
    old messages are removed; None leaves that to ``Broker.sweep``. ``clock`` is for tests.
    """
    broker = Broker(
        open_store(store, clock=clock), keys=keys, limits=limits, sweep_interval=sweep_interval
    )
    async with broker:
        yield broker
