"""Requests for lists let other requests run, whatever the number of partitions.

Totals are kept, and need no loop.
"""

import asyncio
from typing import Any

import pytest

from skep import Broker
from skep.core import fairness
from tests.http.build import Client

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
    monkeypatch.setattr(fairness, "_FREE_SECONDS", 0)
    monkeypatch.setattr(fairness, "SLICE_SECONDS", 0)
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
