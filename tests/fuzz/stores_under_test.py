"""The stores under comparison, each behind real servers in this process, on a manual clock."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from random import Random

import httpx

from skep import Broker, Delivery, KeyRing, Limits
from skep.client.retry import Retry
from skep.http.app import App
from skep.http.auth.authenticator import AllowAll
from skep.http.routes import all_routes
from skep.store.memory import MemoryStore
from skep.store.protocol import Store
from tests.fuzz.round_options import Options
from tests.machine.broker_driver import BrokerDriver
from tests.machine.postgres_rules import LossyPostgresStore
from tests.support.faults.traffic import PlainClient
from tests.support.postgres_databases import databases

KEYS = KeyRing({"k1": bytes(range(32))}, current="k1")
URL = "http://localhost:6632"
ONCE = Retry(attempts=1)


class NoJitter(Random):
    """Retries come after the same delay on every server."""

    def random(self) -> float:
        return 0.0


@dataclass
class Server:
    broker: Broker
    client: PlainClient


@dataclass
class Seat:
    """Where an operation is applied: the servers of one store, and which of them is asked."""

    place: "StoreUnderTest"
    number: int

    @property
    def server(self) -> Server:
        return self.place.servers[self.number % len(self.place.servers)]

    @property
    def client(self) -> PlainClient:
        return self.server.client

    @property
    def book(self) -> "Book":
        return self.place.book

    def next(self, steps: int = 1) -> "Seat":
        return Seat(self.place, self.number + steps)


@dataclass
class Book:
    """What one store has handed out, under the labels that the operations chose for it."""

    deliveries: dict[str, Delivery] = field(default_factory=dict)


class StoreUnderTest(BrokerDriver):
    """One store with one server; what a server forgets in a crash it reads again."""

    name = ""

    def __init__(self, options: Options, *, on_disk: bool) -> None:
        self.book = Book()
        self._limits = Limits() if options.cached else Limits(cache_bytes=0)
        super().__init__(on_disk=on_disk)
        self.servers = [_serve(self.broker)]

    def restart(self, number: int, *, crash: bool) -> None:
        """End a server, in order or not, and start it again."""
        if crash:
            self.crash()
        else:
            self.reopen()
        self.servers = [_serve(self.broker)]

    def _make_broker(self, store: Store) -> Broker:
        return Broker(
            store,
            keys=KEYS,
            limits=self._limits,
            sweep_interval=None,
            follow_interval=None,
            random=NoJitter(),
        )


class MemoryUnderTest(StoreUnderTest):
    """The reference. The store outlives its server."""

    name = "memory"

    def __init__(self, options: Options) -> None:
        self._store: MemoryStore | None = None
        super().__init__(options, on_disk=False)

    def restart(self, number: int, *, crash: bool) -> None:
        self.broker = self._open()
        self.servers = [_serve(self.broker)]

    def _open_store(self) -> Store:
        self._store = self._store or MemoryStore(clock=self.clock)
        return self._store


class RocksUnderTest(StoreUnderTest):
    name = "rocksdb"

    def __init__(self, options: Options) -> None:
        super().__init__(options, on_disk=True)


class PostgresUnderTest(StoreUnderTest):
    """One database with several servers."""

    name = "postgres"

    def __init__(self, options: Options) -> None:
        self._url = databases().empty()
        super().__init__(options, on_disk=False)
        self.servers += [self._start() for _ in range(options.servers - 1)]

    def restart(self, number: int, *, crash: bool) -> None:
        index = number % len(self.servers)
        abandoned = self.servers[index].broker
        if crash:
            store = abandoned._store
            assert isinstance(store, LossyPostgresStore)
            store.die()
        self.run(abandoned.close())
        self.servers[index] = self._start()

    def close(self) -> None:
        for server in self.servers:
            self.run(server.broker.close())
        self._runner.close()
        databases().end_others()

    def _start(self) -> Server:
        return _serve(self._open())

    def _open_store(self) -> Store:
        return LossyPostgresStore(self._url, clock=self.clock)


@contextmanager
def places(options: Options) -> Iterator[list[StoreUnderTest]]:
    """Memory, which is the reference, RocksDB, and PostgreSQL with several servers."""
    with ExitStack() as stack:
        found: list[StoreUnderTest] = []
        for make in (MemoryUnderTest, RocksUnderTest, PostgresUnderTest):
            place: StoreUnderTest = make(options)
            stack.callback(place.close)
            found.append(place)
        yield found


_routes = cache(all_routes)


def _serve(broker: Broker) -> Server:
    app = App(broker, _routes(), authenticator=AllowAll())
    transport = httpx.ASGITransport(app)
    return Server(broker, PlainClient(URL, retry=ONCE, transport=transport))
