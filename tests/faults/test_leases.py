"""Whose lease it is: who slept too long is refused, and no two hold the same, however short.

``SKEP_SECONDS=60 pytest tests/faults/test_leases.py`` lets them contend longer, and ``SKEP_SEED``
otherwise.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import httpx
import pytest

from skep import Ack, AsyncClient, Delivery, Draft, Push
from skep.errors import LeaseLost, SkepError
from skep.model.lease_id import worker_id_of
from skep.model.name import LeaseId
from skep.wire import paths
from tests.support.faults.history import Recorder, read
from tests.support.faults.history_checker import check
from tests.support.faults.recording_clients import (
    LEASE_SECONDS,
    SOURCE,
    TARGET,
    Consumer,
    Producer,
    audit,
)
from tests.support.faults.store_servers import KINDS, clients_of, start_servers
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.xdist_group("killed")

SECONDS = float(os.environ.get("SKEP_SECONDS", "4"))
SEED = os.environ.get("SKEP_SEED", "1")
CONTENDERS = 20
PARTITIONS = 12
GROUP = "g"


@pytest.fixture(params=KINDS)
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[ServerProcess]]:
    with start_servers(request.param, tmp_path) as servers:
        yield servers


async def taken_over(first: AsyncClient, second: AsyncClient) -> tuple[Delivery, Delivery]:
    """What somebody held who slept, and what another holds of it, who has done a part."""
    await first.push(SOURCE, [Draft(b"%d" % n, "p") for n in range(5)])
    slept = await first.pop(SOURCE, group=GROUP, batch=5, lease_seconds=LEASE_SECONDS)
    # It comes when the lease of the first is over.
    held = await second.pop(SOURCE, group=GROUP, batch=5, lease_seconds=600, wait=30)
    assert slept is not None
    assert held is not None
    await second.ack(held, held.messages[:2])
    return slept, held


ACTS: dict[str, Callable[[AsyncClient, Delivery], Awaitable[object]]] = {
    "ack of all": lambda client, lease: client.ack(lease),
    "ack of some": lambda client, lease: client.ack(lease, lease.messages[:1]),
    "ack of what the other has not done": lambda client, lease: client.ack(
        lease, lease.messages[3:]
    ),
    "extend": lambda client, lease: client.extend(lease, 1000),
    "fail": lambda client, lease: client.fail(lease, error="boom"),
    "transact": lambda client, lease: client.transact(
        [Ack(lease.lease_id or ""), Push(TARGET, [Draft(b"copy", "p")])]
    ),
    "transact under a key": lambda client, lease: client.transact(
        [Push(TARGET, [Draft(b"copy", "p")])],
        required_leases=[lease.lease_id or ""],
        idempotency_key="once",
    ),
}


async def test_who_wakes_after_his_lease_is_refused_and_changes_nothing(
    servers: list[ServerProcess],
) -> None:
    async with clients_of(servers) as clients:
        first, second = clients[0], clients[-1]
        slept, held = await taken_over(first, second)
        (before,) = await second.groups.lag(SOURCE, GROUP)

        refused = {name: await refusal(act(first, slept)) for name, act in ACTS.items()}
        answers = await statuses(servers[0].url, slept.lease_id or "")

        assert refused == dict.fromkeys(ACTS, LeaseLost)
        assert answers == [409, 409, 409, 409]
        assert await second.groups.lag(SOURCE, GROUP) == [before]
        assert (before.cursor, before.worker_id) == (2, worker_id_of(held.lease_id or LeaseId("")))
        assert await second.pop(TARGET) is None
        assert await second.dead_letters.list(SOURCE) == []
        assert (await second.ack(held, held.messages[2:])).completed == 3


async def statuses(url: str, lease: str) -> list[int]:
    """What the acts of somebody without a lease are answered on the wire."""
    settle = {"type": "settle", "leaseId": lease}
    async with httpx.AsyncClient(base_url=url) as http:
        acked = await http.post(paths.settle(lease), json={"status": "completed"})
        failed = await http.post(paths.settle(lease), json={"status": "failed"})
        extended = await http.post(paths.extend(lease), json={"seconds": 5})
        transacted = await http.post(paths.TRANSACTION, json={"operations": [settle]})
    # A transaction that is refused is an answer, with the refusal in it.
    inner = transacted.json()["problem"]["status"]
    return [acked.status_code, failed.status_code, extended.status_code, inner]


async def refusal(act: Awaitable[object]) -> type[Exception] | None:
    try:
        await act
    except SkepError as error:
        return type(error)
    return None


async def test_no_two_of_many_hold_the_same_and_what_is_acked_stays(
    servers: list[ServerProcess], tmp_path: Path
) -> None:
    recorder = Recorder(tmp_path / "history.jsonl", "one")
    async with clients_of(servers) as clients:
        contest = Contest(clients, recorder)
        await contest.fill()
        contenders = [asyncio.create_task(contest.contend(n)) for n in range(CONTENDERS)]
        await asyncio.wait(contenders, timeout=SECONDS, return_when=asyncio.FIRST_EXCEPTION)
        contest.ending = True
        await asyncio.gather(*contenders)
        await audit(clients[0], recorder)

    history = read([tmp_path / "history.jsonl"])
    assert check(history) == []
    done = Counter((op.asked.does, op.result) for op in history)
    assert min(done["settle", "ok"], done["extend", "ok"]) > 0
    assert done["settle", "fail"] + done["extend", "fail"] > 0
    assert not any(result == "info" for _, result in done)


class Contest:
    """Many who want the same few partitions, and go to another server with each request."""

    def __init__(self, clients: list[AsyncClient], recorder: Recorder) -> None:
        self._clients = clients
        self._recorder = recorder
        self.ending = False

    async def fill(self) -> None:
        """More than they can be done with in the time."""
        producer = Producer(self._clients[0], self._recorder, Random(SEED))
        for partition in range(PARTITIONS):
            values = [f"ann-{partition}-{n}" for n in range(int(SECONDS * 20))]
            assert await producer.push("ann", f"p{partition}", values, ids=False)

    async def contend(self, number: int) -> None:
        """Until the end; then until nothing has come for longer than any lease lasts."""
        random = Random(f"{SEED}-{number}")
        each = [Consumer(client, self._recorder, random, GROUP) for client in self._clients]
        while True:
            ending = self.ending
            delivery = await random.choice(each).pop(
                batch=1000 if ending else 3, wait=1.5 * LEASE_SECONDS if ending else 0.5
            )
            if delivery and ending:
                await random.choice(each).complete_all(delivery)
            elif delivery:
                await self._hold(each, delivery, random)
            elif ending:
                return

    async def _hold(self, each: list[Consumer], delivery: Delivery, random: Random) -> None:
        """Be done at once, or near the end of the lease, or of the second, or never."""
        # When it was granted is not known: by the network's time before it came.
        end = asyncio.get_running_loop().time() + LEASE_SECONDS
        fate = random.random()
        if fate < 0.2:
            await random.choice(each).complete_all(delivery)
        elif fate < 0.9:
            await until(end + random.uniform(-0.06, 0.005))
            if fate < 0.5:
                await random.choice(each).complete_all(delivery)
            elif await random.choice(each).extend(delivery) and fate < 0.8:
                await until(end + random.uniform(0.9, 0.97))
                await random.choice(each).complete(delivery, delivery.messages[:2])


async def until(when: float) -> None:
    await asyncio.sleep(when - asyncio.get_running_loop().time())
