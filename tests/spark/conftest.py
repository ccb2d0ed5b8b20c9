"""A real server, and one Spark session for all tests that need one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from skep import Client, Draft
from skep.cli.demo_shop import Order, Shop, orders_of
from skep.errors import Unavailable
from skep.model.message import Message
from skep.spark import session
from tests.support.cli_shell import Shell
from tests.support.server_process import ServerProcess
from tests.support.spark.stream_run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Push = Callable[..., list[tuple[str, int, bytes]]]


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Spark and its workers say."""
    return tmp_path_factory.mktemp("spark") / "spark.log"


@pytest.fixture(scope="session")
def spark(spark_log: Path, url: str) -> "Iterator[SparkSession]":
    # To compile a query, or to plan it anew, takes longer than to run it as seldom as a test does.
    conf = {"spark.sql.codegen.wholeStage": "false", "spark.sql.adaptive.enabled": "false"}
    with pytest.MonkeyPatch.context() as patch:
        # For who names no server: workers have the environment in which Spark was started.
        patch.setenv("SKEP_URL", url)
        # Tasks are tried again only because of the second number.
        try:
            found = session("skep-tests", "local[2,2]", log=spark_log, **conf)
        except Unavailable as error:
            pytest.fail(str(error), pytrace=False)
    yield found
    found.stop()


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ServerProcess(tmp_path_factory.mktemp("store") / "data") as server:
        yield server.url


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


@pytest.fixture
def queue() -> str:
    """A queue that no other test uses."""
    return f"q-{uuid4().hex[:12]}"


@pytest.fixture
def push(client: Client, queue: str) -> Push:
    """Push so many messages over so many partitions, and say what is there then."""

    def push(count: int, partitions: int = 1, *, to: str = queue) -> list[tuple[str, int, bytes]]:
        drafts = [
            Draft(b'{"n": %d,  "text": "\xc3\xa4"}' % number, f"p{number % partitions}")
            for number in range(count)
        ]
        receipts = client.push(to, drafts)
        return [
            (receipt.partition, receipt.offset, draft.payload)
            for receipt, draft in zip(receipts, drafts, strict=True)
        ]

    return push


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture
def run(spark: "SparkSession", url: str, queue: str, checkpoint: str) -> Callable[..., Run]:
    """A stream of the queue, from its beginning unless it is told otherwise."""

    def run(**options: Any) -> Run:
        return Run(spark, url, checkpoint, **{"queue": queue, "consumerGroup": queue} | options)

    return run


class Market:
    """A shop that was opened by ``skep demo``, and what its seed says about it."""

    def __init__(self, client: Client, prefix: str, orders: list[Order]) -> None:
        self.shop = Shop(client, prefix)
        self.orders = orders
        self.queues = (self.shop.orders, self.shop.payments, self.shop.shipments)

    @property
    def options(self) -> list[str]:
        """Those that name its queues to a pipeline."""
        return [word for queue in self.queues for word in ("--queue", queue)]

    def of(self, *fates: str) -> list[Order]:
        return [order for order in self.orders if order.outcome in fates]


def open_market(client: Client, shell: Shell, orders: int) -> Market:
    prefix = f"{uuid4().hex[:8]}-"
    shell.run("demo", "--orders", str(orders), "--seed", "7", "--prefix", prefix)
    return Market(client, prefix, orders_of(7, orders))


@pytest.fixture
def shell(url: str, tmp_path: Path) -> Shell:
    """Where commands are typed by somebody who has no runs yet."""
    return Shell(url, XDG_DATA_HOME=str(tmp_path / "home"))


def own_run(shell: Shell) -> dict[str, Any]:
    """The one run of somebody; the server knows of others, too."""
    (run,) = [each for each in shell.json("pipeline", "status") if each["checkpoint"]]
    return dict(run)


@pytest.fixture
def market(spark: "SparkSession", client: Client, shell: Shell) -> Market:
    return open_market(client, shell, 300)


def messages_in(client: Client, queue: str) -> list[Message]:
    """Everything in a queue, in the order of each partition."""
    found: list[Message] = []
    before = None
    while True:
        page = client.messages.list(queue, before=before, limit=1000)
        found += page.messages
        before = page.next
        if before is None:
            return sorted(found, key=lambda message: (message.partition, message.offset))
