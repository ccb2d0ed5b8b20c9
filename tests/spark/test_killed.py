"""A stream from queue to queue while its driver, its workers and its servers are killed.

``SKEP_KILLS=200`` does it longer, and ``SKEP_SEED`` repeats the moments of a run.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from random import Random

import pytest

from skep import Client, Draft
from tests.support.faults.persistent_producers import PATIENT, everything
from tests.support.postgres_databases import databases
from tests.support.server_process import ServerProcess
from tests.support.spark.copy_driver import BATCH, Copy
from tests.support.spark.driver_process import Driver
from tests.support.spark.long_run import long

pytestmark = pytest.mark.xdist_group("killed")

KILLS = int(os.environ.get("SKEP_KILLS", "3"))
SEED = int(os.environ.get("SKEP_SEED", "1"))
PARTITIONS = 7
FED = 3 * BATCH
"""Messages that are pushed before each kill, so that it finds the stream at work."""
MASTERS = (
    ("local[2,4]", 2),
    ("local[1,4]", 1),
    ("local-cluster[2,1,1024]", 3),
    ("local[3,4]", 4),
)
"""Other cores and other tasks in each life; tasks are tried again in all of them."""


class Scene:
    def __init__(self, servers: list[ServerProcess], place: Path) -> None:
        self._servers = servers
        self._checkpoint = str(place / "checkpoint")
        self._random = Random(SEED)
        self._masters = cycle(MASTERS)
        self._fed = 0
        self.driver = self._start()

    def _start(self) -> Driver:
        master, tasks = next(self._masters)
        url = self._random.choice(self._servers).url
        return Driver(
            Copy(
                url=url,
                source="source",
                target="target",
                checkpoint=self._checkpoint,
                master=master,
                tasks=tasks,
            )
        )

    def feed(self) -> None:
        """Push some more, by any server."""
        with Client(self._random.choice(self._servers).url, retry=PATIENT) as client:
            numbers = range(self._fed, self._fed + FED)
            for some in (numbers[at : at + 50] for at in range(0, FED, 50)):
                drafts = [Draft(b"%d" % n, f"p{n % PARTITIONS}", f"t{n}") for n in some]
                client.push("source", drafts)
        self._fed += FED

    def copied(self) -> int:
        with Client(self._servers[0].url, retry=PATIENT) as client:
            return client.queues.stats("target").messages

    def wait_for(self, count: int) -> None:
        """Wait until so many are copied; a driver that gave up is started again."""
        while self.copied() < count:
            if self.driver.wait(0.01) is not None:
                self.driver = self._start()

    def wait_for_some(self) -> None:
        self.wait_for(min(self.copied() + BATCH, self._fed))

    def wait_for_all(self) -> None:
        self.wait_for(self._fed)

    def kill(self, kind: str) -> None:
        # Often at once: then a batch is published, and Spark has perhaps not noted that it is.
        time.sleep(self._random.choice((0, self._random.uniform(0, 0.5))))
        {"workers": self._kill_workers, "server": self._kill_server, "driver": self._kill_driver}[
            kind
        ]()

    def _kill_workers(self) -> None:
        workers = self.driver.workers()
        for pid in self._random.sample(workers, self._random.randint(1, len(workers))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _kill_server(self) -> None:
        server = self._random.choice(self._servers)
        server.end(signal.SIGKILL)
        server.start()

    def _kill_driver(self) -> None:
        self.driver.kill()
        self.driver = self._start()


def run(scene: Scene, kinds: tuple[str, ...], kills: int) -> None:
    try:
        for _, kind in zip(range(kills), cycle(kinds), strict=False):
            scene.feed()
            scene.wait_for_some()
            scene.kill(kind)
        scene.feed()
        scene.wait_for_all()
    finally:
        scene.driver.kill()


def create_queues(server: ServerProcess) -> None:
    with Client(server.url) as client:
        for name in ("source", "target"):
            client.queues.configure(name)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as server:
        create_queues(server)
        yield server


@pytest.fixture
def servers() -> Iterator[list[ServerProcess]]:
    store = databases().empty()
    with ServerProcess(store) as one, ServerProcess(store) as two:
        create_queues(one)
        yield [one, two]


def test_every_message_is_copied_once_and_in_order_whoever_is_killed(
    server: ServerProcess, tmp_path: Path
) -> None:
    run(Scene([server], tmp_path), ("workers", "server", "driver"), KILLS)

    source = asyncio.run(everything(server.url, "source"))
    assert sum(map(len, source.values())) == (KILLS + 1) * FED
    assert asyncio.run(everything(server.url, "target")) == source


@long
def test_every_message_is_copied_once_and_in_order_though_one_of_two_servers_is_killed(
    servers: list[ServerProcess], tmp_path: Path
) -> None:
    run(Scene(servers, tmp_path), ("server", "server", "driver", "workers"), max(1, KILLS - 2))

    source = asyncio.run(everything(servers[0].url, "source"))
    assert sum(map(len, source.values())) == (max(1, KILLS - 2) + 1) * FED
    assert asyncio.run(everything(servers[1].url, "target")) == source
