"""Whether the server is well, and its numbers for who watches many servers."""

from collections.abc import AsyncIterator, Sequence

import pytest

from skep import Broker
from skep.errors import StoreFailed
from skep.http.auth.principal import Permission
from skep.model.change import Change, Commit
from skep.store.memory import MemoryStore
from skep.testing.clock import ManualClock
from tests.support.broker_builders import make_broker
from tests.support.http.json_client import Client, open_client, somebody


class FailingStore(MemoryStore):
    """A store that stops taking writes when it is told to."""

    failed = False

    async def commit(self, changes: Sequence[Change]) -> Commit:
        if self.failed:
            raise StoreFailed("the disk at /var/secret is full")
        return await super().commit(changes)


@pytest.fixture
async def failing(clock: ManualClock) -> AsyncIterator[tuple[FailingStore, Client]]:
    store = FailingStore(clock=clock)
    async with make_broker(store) as broker, open_client(broker) as client:
        yield store, client


async def test_a_server_that_can_write_is_healthy(client: Client) -> None:
    found = await client.get("/health")

    assert (found["status"], found["database"]) == ("healthy", "connected")
    assert found["worker_id"]
    assert found["version"]
    assert "error" not in found
    assert await client.get("/health/live") == {"status": "alive"}
    assert await client.get("/health/ready") == {"status": "ready"}


async def test_a_server_whose_store_has_failed_is_alive_and_not_healthy(
    failing: tuple[FailingStore, Client],
) -> None:
    store, client = failing
    store.failed = True

    found = await client.get("/health", status=503)

    assert (found["status"], found["database"]) == ("unhealthy", "disconnected")
    assert "is full" in found["error"]
    assert (await client.get("/health/ready", status=503))["status"] == "not ready"
    await client.get("/health/live")
    assert (await client.get("/api/v1/status/buffers"))["dbHealthy"] is False


async def test_what_is_wrong_is_told_in_full_only_to_who_may_know(
    failing: tuple[FailingStore, Client],
) -> None:
    store, client = failing
    store.failed = True
    client.badge.principal = somebody(queues=())

    found = await client.get("/health", status=503)

    assert "secret" not in found["error"]


async def test_a_server_that_is_stopping_is_healthy_and_not_ready(
    client: Client, broker: Broker
) -> None:
    broker.drain()

    await client.get("/health")
    found = await client.get("/health/ready", status=503)

    assert "stopping" in found["error"]


async def test_a_server_that_is_closed_is_not_healthy(client: Client, broker: Broker) -> None:
    await broker.close()

    await client.get("/health", status=503)
    await client.get("/health/live")
    assert "skep_up 0.0" in await client.text("/metrics/prometheus")


async def test_metrics_are_a_few_numbers(client: Client) -> None:
    await client.push("orders", 1, 2)
    await client.pop("orders", batch=2)

    found = await client.get("/metrics")

    assert found["messages"] == {"total": 4, "rate": 4}
    assert found["requests"]["total"] == 2
    assert "database" not in found
    assert found["memory"]["rss"] > 0
    assert found["cpu"]["user"] > 0
    assert "orders" not in str(found)


async def test_prometheus_scrapes_queues_groups_and_requests(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1, 2, 3)
    clock.advance(5)
    await client.settle(await client.pop("orders", batch=1, consumerGroup="billing"), "completed")
    await client.pop("orders", batch=1, consumerGroup="billing")

    text = await client.text("/metrics/prometheus")

    for line in (
        "skep_up 1.0",
        "skep_messages_pushed_total 3.0",
        'skep_queue_messages{queue="orders"} 3.0',
        'skep_queue_pending{queue="orders"} 1.0',
        'skep_queue_processing{queue="orders"} 1.0',
        'skep_queue_messages_pushed_total{queue="orders"} 3.0',
        'skep_queue_messages_acked_total{queue="orders"} 1.0',
        'skep_group_backlog{group="billing",queue="orders"} 2.0',
        'skep_group_lag_seconds{group="billing",queue="orders"} 5.0',
        'skep_http_requests_total{method="POST",route="/api/v1/push",status="201"} 1.0',
    ):
        assert line in text.splitlines(), line
    assert "process_resident_memory_bytes" in text


async def test_prometheus_is_not_told_names_that_the_caller_may_not_know(client: Client) -> None:
    await client.push("orders", 1)
    await client.push("payments", 2)
    await client.register("orders", "billing")

    client.badge.principal = somebody(queues=())
    anonymous = await client.text("/metrics/prometheus")
    client.badge.principal = somebody(Permission.STATUS, queues=("payments",))
    some = await client.text("/metrics/prometheus")

    assert "skep_messages_pushed_total 2.0" in anonymous
    assert "payments" not in anonymous
    assert 'queue="payments"' in some
    assert "orders" not in some + anonymous
    assert "billing" not in some + anonymous


async def test_a_name_with_quotes_does_not_break_the_text(client: Client) -> None:
    await client.push('a"b\\c', 1)

    text = await client.text("/metrics/prometheus")

    assert 'skep_queue_messages{queue="a\\"b\\\\c"} 1.0' in text.splitlines()


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready", "/metrics"])
async def test_health_is_open_to_everybody(client: Client, path: str) -> None:
    client.badge.principal = somebody(queues=())

    await client.get(path)
