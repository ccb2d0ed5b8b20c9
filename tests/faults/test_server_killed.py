"""A server that is killed again and again, under load from clients that try again.

Nothing that was answered is lost, nothing is stored twice because an answer was, and the order of
a partition is the order in which it was pushed.
"""

import asyncio
import os
import signal
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from skep import AsyncClient, AsyncProducer, Draft
from skep.errors import SkepError
from tests.support.faults.persistent_producers import PATIENT, Load, everything
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.xdist_group("killed")

KILLS = int(os.environ.get("SKEP_KILLS", "4"))
PRODUCERS = 4
BETWEEN = 200
"""Messages that are answered between two kills: so each kill finds the server at work."""


async def test_nothing_is_lost_doubled_or_reordered(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        load = Load(server.url)
        producers = [asyncio.create_task(load.produce(number)) for number in range(PRODUCERS)]

        for kill in range(KILLS):
            await load.until((kill + 1) * BETWEEN)
            await asyncio.to_thread(server.end, signal.SIGKILL)
            await asyncio.to_thread(server.start)
        await load.until((KILLS + 1) * BETWEEN)
        load.stop()
        await asyncio.gather(*producers)

        assert await everything(server.url) == load.answered


async def test_a_producer_loses_and_doubles_nothing_either(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        pushed: dict[str, list[str]] = defaultdict(list)
        async with (
            AsyncClient(server.url, retry=PATIENT) as client,
            AsyncProducer(client) as producer,
        ):
            receipts = []
            for kill in range(KILLS):
                for number in range(BETWEEN):
                    partition, chosen = f"p{number % 5}", f"{kill}-{number}"
                    pushed[partition].append(chosen)
                    draft = Draft(chosen.encode(), partition)
                    receipts.append(await producer.push("orders", draft))
                await asyncio.to_thread(server.end, signal.SIGKILL)
                await asyncio.to_thread(server.start)
            await producer.flush()
            stored = [await receipt for receipt in receipts]

        assert not any(receipt.duplicate for receipt in stored)
        assert await everything(server.url) == pushed


async def test_what_was_acked_is_not_delivered_again(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        acked: list[bytes] = []
        again: list[bytes] = []
        async with AsyncClient(server.url, retry=PATIENT) as client:
            drafts = [Draft(b"%d" % n, f"p{n % 9}") for n in range(KILLS * 50)]
            await client.push("orders", drafts)
            for _ in range(KILLS):
                for _ in range(9):
                    delivery = await client.pop("orders", batch=3, lease_seconds=1, wait=5)
                    assert delivery is not None
                    payloads = [message.payload for message in delivery.messages]
                    again += [payload for payload in payloads if payload in acked]
                    with suppress(SkepError):
                        await client.ack(delivery)
                        acked += payloads
                await asyncio.to_thread(server.end, signal.SIGKILL)
                await asyncio.to_thread(server.start)

        assert acked
        assert again == []
