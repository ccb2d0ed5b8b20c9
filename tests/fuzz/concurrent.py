"""Real servers, clients that hop between them, faults, and a checker that reads the history."""

import asyncio
import shutil
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from skep import AsyncClient
from skep.client.retry import Retry
from tests.fuzz.actors import COPIER, SEEKER, Actors
from tests.fuzz.fault_injector import FaultInjector
from tests.fuzz.load_options import LoadOptions
from tests.fuzz.verifying_client import VerifyingClient
from tests.support.faults.history import Invocation, Recorder, Return, read
from tests.support.faults.history_checker import check
from tests.support.faults.persistent_producers import PATIENT
from tests.support.faults.postgres_cluster import Cluster
from tests.support.faults.recording_clients import SOURCE, TARGET, Hopping, audit, shown_letter
from tests.support.faults.traffic import PlainClient
from tests.support.server_process import ServerProcess
from tests.support.skewed_database_clock import SKEW

RETRY_LIMIT = 3
TIMEOUT = 5.0
DRAIN_SECONDS = 30.0
STEP = 0.1
PAGE = 1000
CLOCK_EXCUSES = ("I7", "I9", "I19", "I20")
"""What may happen to leases when the clock of the database jumps."""


@dataclass(frozen=True)
class Round:
    options: LoadOptions
    broken: dict[str, list[str]]
    """By rule."""
    requests: int


def play(seed: str, place: Path) -> Round:
    """Draw a round from its seed; its history is left in ``place`` if a rule was broken."""
    random = Random(seed)
    options = LoadOptions.draw(random)
    place.mkdir(parents=True)
    broken, requests = asyncio.run(_Stage(options, place, seed, random).run())
    if not broken:
        shutil.rmtree(place)
    return Round(options, broken, requests)


@cache
def cluster() -> Cluster:
    started = Cluster()
    started.start()
    return started


def close_cluster() -> None:
    if cluster.cache_info().currsize:
        cluster().remove()
        cluster.cache_clear()


class _Stage:
    def __init__(self, options: LoadOptions, place: Path, seed: str, random: Random) -> None:
        self._options = options
        self._path = place / "history.jsonl"
        self._place = place
        self._seed = seed
        self._random = random
        self._recorder = Recorder(self._path, "fuzz")
        self._found: list[str] = []

    async def run(self) -> tuple[dict[str, list[str]], int]:
        async with self._servers() as (servers, database), AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(
                    PlainClient(server.url, retry=Retry(attempts=1), timeout=TIMEOUT)
                )
                for server in servers
            ]
            patient = [
                await stack.enter_async_context(AsyncClient(server.url, retry=PATIENT))
                for server in servers
            ]
            await self._configure(patient[0])
            breaking = FaultInjector(
                servers,
                cluster() if database else None,
                database,
                self._random,
                self._options.lease_seconds,
            )
            await self._load(Hopping(clients), patient, breaking)
            await self._look(patient)
        history = read([self._path])
        self._found += check(history, retry_limit=RETRY_LIMIT, copies=(SOURCE, TARGET))
        return self._broken(), len(history)

    async def _configure(self, client: AsyncClient) -> None:
        for queue in (SOURCE, TARGET):
            await client.queues.configure(
                queue,
                lease_time=self._options.lease_seconds,
                retry_limit=RETRY_LIMIT,
                retry_delay=100,
                encryption_enabled=self._options.encryption,
            )

    async def _load(
        self, queue: Hopping, patient: Sequence[AsyncClient], breaking: FaultInjector
    ) -> None:
        """Work under faults; then without them until nothing is left."""
        actors = Actors(queue, self._recorder, self._options, self._seed)
        consumers = _tasks(actors.consumers())
        others = actors.producers()
        if self._options.alone:
            alone = VerifyingClient(queue, self._recorder, Random(f"{self._seed}-alone"))
            others.append(alone.run(lambda: not actors.producing))
        producers = _tasks(others)
        try:
            await self._break(breaking)
            actors.producing, actors.finishing = False, True
            async with asyncio.timeout(DRAIN_SECONDS):
                await asyncio.gather(*producers)
            await self._drain(patient[0], consumers)
        except TimeoutError:
            self._found.append(f"I18 producers still wait after {DRAIN_SECONDS:g} s")
        finally:
            for task in (*consumers, *producers):
                task.cancel()
            ended = await asyncio.gather(*consumers, *producers, return_exceptions=True)
        for each in ended:
            if isinstance(each, Exception):
                raise each

    async def _break(self, breaking: FaultInjector) -> None:
        pause = self._options.seconds / (len(self._options.faults) + 1)
        await asyncio.sleep(pause)
        for fault in self._options.faults:
            await breaking.strike(fault)
            await asyncio.sleep(pause)

    async def _drain(self, client: AsyncClient, consumers: Sequence[asyncio.Task[None]]) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS
        while waiting := [lag for lag in await client.groups.list(SOURCE) if lag.backlog]:
            for task in consumers:
                if task.done():
                    task.result()
            if time.monotonic() > deadline:
                stuck = ", ".join(f"{lag.group} {lag.backlog}" for lag in waiting)
                self._found.append(f"I18 still not read after {DRAIN_SECONDS:g} s: {stuck}")
                return
            await asyncio.sleep(STEP)

    async def _look(self, patient: Sequence[AsyncClient]) -> None:
        """Read everything once more, and let every server count it."""
        for queue in (SOURCE, TARGET):
            await audit(self._random.choice(patient), self._recorder, queue)
        for group in (*self._options.groups, COPIER, SEEKER):
            await self._letters(self._random.choice(patient), group)
        for number, client in enumerate(patient):
            await self._count(client, f"server{number}")

    async def _letters(self, client: AsyncClient, group: str) -> None:
        asked = self._recorder.invoke(Invocation(does="letters", queue=SOURCE, group=group))
        found = await client.dead_letters.list(SOURCE, group=group, limit=PAGE)
        while len(found) % PAGE == 0 and found:
            before = found[-1].number
            more = await client.dead_letters.list(SOURCE, group=group, limit=PAGE, before=before)
            if not more:
                break
            found = [*found, *more]
        self._recorder.answer(asked, Return(seen=[shown_letter(one) for one in found]))

    async def _count(self, client: AsyncClient, server: str) -> None:
        asked = self._recorder.invoke(Invocation(does="counts", queue=SOURCE, server=server))
        stats = await client.queues.stats(SOURCE)
        counts = {
            "messages": stats.messages,
            "depth": stats.depth,
            "dead_letters": stats.dead_letters,
        }
        counts |= {
            f"backlog of {lag.group}": lag.backlog for lag in await client.groups.list(SOURCE)
        }
        self._recorder.answer(asked, Return(counts=counts))

    def _broken(self) -> dict[str, list[str]]:
        excused = CLOCK_EXCUSES if "clock" in self._options.faults else ()
        found: defaultdict[str, list[str]] = defaultdict(list)
        for violation in self._found:
            invariant = violation.split()[0]
            if invariant not in excused:
                found[f"{self._options.store}.{invariant}"].append(violation)
        return dict(found)

    @asynccontextmanager
    async def _servers(self) -> AsyncIterator[tuple[list[ServerProcess], str]]:
        options = self._options
        database, store = "", str(self._place / "data")
        if options.store == "postgres":
            database = await cluster().create(SKEW if "clock" in options.faults else "SELECT")
            store = cluster().url(database)
        keys = self._place / "keys"
        keys.touch(mode=0o600)
        keys.write_text(f"k1:{bytes(range(32)).hex()}\n")
        servers = [
            ServerProcess(
                store,
                *("--workers", str(options.workers)) if options.workers > 1 else (),
                SKEP_ENCRYPTION_KEYS=str(keys),
                SKEP_LOG_LEVEL="critical",
            )
            for _ in range(options.servers)
        ]
        try:
            await asyncio.gather(*(asyncio.to_thread(server.start) for server in servers))
            yield servers, database
        finally:
            for server in servers:
                await asyncio.to_thread(server.end, 9)


def _tasks(work: Sequence[Awaitable[None]]) -> list[asyncio.Task[None]]:
    return [asyncio.ensure_future(each) for each in work]
