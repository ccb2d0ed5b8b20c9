"""``python -m tests.support.stalling_server PATH``: its store stalls from SIGUSR1 to SIGUSR2.

RocksDB stops writes itself: it is told that one file in level 0 is too many, and not to compact it.
"""

import asyncio
import signal
import sys
from pathlib import Path

from skep import Broker
from skep.http.app import App
from skep.http.auth.authenticator import AllowAll
from skep.http.routes import all_routes
from skep.http.server import Address, HttpServer
from skep.store.rocksdb.store import RocksStore


def stall(store: RocksStore) -> None:
    store._db._segments.flush(True)
    set_limit(store, 1)


def set_limit(store: RocksStore, files: int) -> None:
    store._db._segments.set_options(
        {
            "level0_slowdown_writes_trigger": str(files),
            "level0_stop_writes_trigger": str(files),
        }
    )


def tell(address: Address) -> None:
    sys.stdout.write(f"{address.url}\n")
    sys.stdout.flush()


async def main(path: Path) -> None:
    store = RocksStore(path)
    async with Broker(store) as broker:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, stall, store)
        loop.add_signal_handler(signal.SIGUSR2, set_limit, store, 36)
        app = App(broker, all_routes(backup_directory=None), authenticator=AllowAll())
        await HttpServer(app, broker, Address(port=0), started=tell).serve()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
