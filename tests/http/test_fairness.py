"""Requests for lists let other requests run, whatever the number of partitions.

Totals are kept, and need no loop.
"""

import asyncio
from typing import Any

import pytest

from skep import Broker
from skep.core import aio
from skep.core.log import entry_table
from tests.support.http.json_client import Client

PARTITIONS = 300


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/api/v1/status/queues/orders", {}),
        ("/api/v1/resources/queues/orders", {}),
        ("/api/v1/resources/queues/orders/depth", {"group": "billing"}),
        ("/api/v1/resources/partitions", {}),
        ("/api/v1/resources/partitions", {"queue": "orders", "minDepth": 2}),
        ("/api/v1/consumer-groups/billing", {}),
        ("/api/v1/consumer-groups/lagging", {"minLagSeconds": 0}),
    ],
)
async def test_a_loop_over_partitions_yields(
    client: Client,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    query: dict[str, Any],
) -> None:
    items = [
        {"queue": "orders", "partition": str(number), "payload": number}
        for number in range(PARTITIONS)
    ]
    await client.post("/api/v1/push", {"items": items}, 201)
    await broker.pop("orders", group="billing")
    monkeypatch.setattr(aio, "_FREE_SECONDS", 0)
    monkeypatch.setattr(aio, "SLICE_SECONDS", 0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await client.get(path, **query)
    counting.cancel()
    assert turns >= PARTITIONS


async def test_a_loop_over_the_state_of_a_query_yields(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pushed,) = await client.push("orders", 1)
    source = {"name": "sums", "source_queue": "orders", "config_hash": "1"}
    query = await client.post("/streams/v1/queries", source)
    place = {"query_id": query["query_id"], "partition_id": pushed["partition_id"]}
    state = [{"type": "upsert", "key": str(key), "value": key} for key in range(PARTITIONS)]
    await client.post("/streams/v1/cycle", {**place, "state_ops": state})
    monkeypatch.setattr(entry_table, "PAGE", 1)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    answer = await client.post("/streams/v1/state/get", place)
    counting.cancel()

    assert len(answer["rows"]) == PARTITIONS
    assert turns >= PARTITIONS
