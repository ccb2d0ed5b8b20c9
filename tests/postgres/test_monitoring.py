"""What an operator asks in SQL, as it was always documented, and whether the answer is true."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from skep import Broker, Draft
from skep.model.name import QUEUE_MODE
from tests.support.broker_builders import drafts, pop

TRACE = UUID("00112233-4455-6677-8899-aabbccddeeff")

ACTIVE_LEASES = """
SELECT
    q.name as queue_name,
    p.name as partition_name,
    pl.consumer_group,
    pl.lease_expires_at,
    jsonb_array_length(pl.message_batch) as message_count,
    EXTRACT(EPOCH FROM (pl.lease_expires_at - NOW())) as seconds_remaining
FROM queen.partition_leases pl
JOIN queen.partitions p ON pl.partition_id = p.id
JOIN queen.queues q ON p.queue_id = q.id
WHERE pl.released_at IS NULL
ORDER BY q.name, p.name;
"""

UTILISATION = """
SELECT
    q.name as queue_name,
    COUNT(DISTINCT p.id) as total_partitions,
    COUNT(DISTINCT pl.partition_id) as leased_partitions,
    ROUND(100.0 * COUNT(DISTINCT pl.partition_id) / NULLIF(COUNT(DISTINCT p.id), 0), 2)
        as utilization_pct
FROM queen.queues q
LEFT JOIN queen.partitions p ON q.id = p.queue_id
LEFT JOIN queen.partition_leases pl ON p.id = pl.partition_id
    AND pl.released_at IS NULL
    AND pl.lease_expires_at > NOW()
GROUP BY q.name;
"""

STUCK_PARTITIONS = """
SELECT
    q.name as queue_name,
    p.name as partition_name,
    pl.consumer_group,
    pl.lease_expires_at,
    pl.created_at as lease_started_at,
    EXTRACT(EPOCH FROM (NOW() - pl.created_at)) as lease_held_seconds
FROM queen.partition_leases pl
JOIN queen.partitions p ON pl.partition_id = p.id
JOIN queen.queues q ON p.queue_id = q.id
WHERE pl.released_at IS NULL
    AND pl.lease_expires_at < NOW() + INTERVAL '30 seconds'
ORDER BY pl.lease_expires_at;
"""

CAPACITY = """
SELECT
    queue_name,
    current_depth,
    max_queue_size,
    remaining_capacity
FROM queen.queue_depths
WHERE queue_name = 'orders';
"""

CURSORS = """
SELECT
  p.name as partition,
  pc.consumer_group,
  pc.total_messages_consumed,
  pc.total_batches_consumed,
  pc.last_consumed_at
FROM queen.partition_cursors pc
JOIN queen.partitions p ON p.id = pc.partition_id;
"""

DEAD_LETTERS_BY_GROUP = """
SELECT COUNT(*), consumer_group
FROM queen.dead_letter_queue
GROUP BY consumer_group;
"""

DEAD_LETTERS_OF_GROUP = """
SELECT * FROM queen.dead_letter_queue
WHERE consumer_group = 'billing'
ORDER BY failed_at DESC;
"""

PENDING = """
SELECT SUM(pending_estimate)
FROM queen.partition_consumers
WHERE consumer_group = '__QUEUE_MODE__'
"""

STATISTICS = """
SELECT
    p.name as partition,
    pc.consumer_group,
    pc.pending_estimate as pending,
    0 as processing,
    pc.total_messages_consumed as completed,
    0 as failed,
    (SELECT COUNT(*) FROM queen.dead_letter_queue
     WHERE partition_id = p.id AND consumer_group = pc.consumer_group) as dead_letter
FROM queen.partitions p
LEFT JOIN queen.partition_consumers pc ON pc.partition_id = p.id
WHERE p.queue_id = (SELECT id FROM queen.queues WHERE name = $1)
"""

GROUPS = """
SELECT COUNT(DISTINCT consumer_group) as consumer_groups_count
FROM queen.partition_consumers pc
JOIN queen.partitions p ON p.id = pc.partition_id
JOIN queen.queues q ON p.queue_id = q.id
WHERE pc.consumer_group != '__QUEUE_MODE__'
"""

TRACED = "SELECT * FROM queen.messages WHERE trace_id = $1;"

FIRST_PAGE = """
SELECT * FROM queen.messages
WHERE partition_id = $1
ORDER BY created_at DESC, id DESC
LIMIT $2;
"""

NEXT_PAGE = """
SELECT * FROM queen.messages
WHERE partition_id = $1
  AND (created_at, id) < ($2, $3)
ORDER BY created_at DESC, id DESC
LIMIT $4;
"""


DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    DOCS / name for name in ("how-to/monitoring.md", "how-to/outbox.md", "reference/postgresql.md")
]


@pytest.fixture
async def orders(queue: Broker) -> Broker:
    """Five messages in a, two in b; a is leased for a minute and one of its five is done."""
    await queue.queues.configure("orders", max_size=100, lease_time=60)
    await queue.push("orders", [*drafts(5, "a"), *drafts(2, "b", first=5)])
    delivery = await pop(queue, partition="a", batch=3)
    await queue.ack(delivery, [delivery.messages[0]])
    return queue


async def test_active_leases(orders: Broker, sql: asyncpg.Connection) -> None:
    (lease,) = await sql.fetch(ACTIVE_LEASES)

    assert tuple(lease)[:3] == ("orders", "a", QUEUE_MODE)
    assert lease["message_count"] == 2
    assert 50 < lease["seconds_remaining"] <= 60


async def test_a_lease_that_was_given_back_is_not_active(
    orders: Broker, sql: asyncpg.Connection
) -> None:
    await orders.ack(await pop(orders, partition="b", batch=9))

    assert [row["partition_name"] for row in await sql.fetch(ACTIVE_LEASES)] == ["a"]


async def test_partition_utilisation(orders: Broker, sql: asyncpg.Connection) -> None:
    assert [tuple(row) for row in await sql.fetch(UTILISATION)] == [("orders", 2, 1, 50)]


async def test_stuck_partitions(orders: Broker, sql: asyncpg.Connection) -> None:
    before = await sql.fetch(STUCK_PARTITIONS)

    await pop(orders, partition="b", lease_seconds=20)

    (stuck,) = await sql.fetch(STUCK_PARTITIONS)
    assert before == []
    assert stuck["partition_name"] == "b"
    assert 0 <= stuck["lease_held_seconds"] < 10


async def test_capacity(orders: Broker, sql: asyncpg.Connection) -> None:
    assert [tuple(row) for row in await sql.fetch(CAPACITY)] == [("orders", 6, 100, 94)]


async def test_the_capacity_of_a_queue_that_nobody_reads(
    queue: Broker, sql: asyncpg.Connection
) -> None:
    await queue.push("orders", drafts(4))

    assert [tuple(row) for row in await sql.fetch(CAPACITY)] == [("orders", 4, 0, None)]


async def test_cursor_progress(orders: Broker, sql: asyncpg.Connection) -> None:
    await orders.ack(await pop(orders, partition="b", batch=2))

    found = {row["partition"]: row for row in await sql.fetch(CURSORS)}

    assert found["b"]["total_messages_consumed"] == 2
    assert found["b"]["total_batches_consumed"] == 1
    assert datetime.now(UTC) - found["b"]["last_consumed_at"] < timedelta(minutes=1)


async def test_pending(orders: Broker, sql: asyncpg.Connection) -> None:
    assert await sql.fetchval(PENDING) == 6


async def test_dead_letters_by_group(queue: Broker, sql: asyncpg.Connection) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(3))
    for group in ("billing", "mail"):
        await queue.fail(await pop(queue, group=group, batch=2), error="boom")

    assert sorted(map(tuple, await sql.fetch(DEAD_LETTERS_BY_GROUP))) == [
        (2, "billing"),
        (2, "mail"),
    ]
    newest = (await sql.fetch(DEAD_LETTERS_OF_GROUP))[0]
    assert (newest["error_message"], newest["retry_count"]) == ("boom", 0)


async def test_statistics_of_a_queue(orders: Broker, sql: asyncpg.Connection) -> None:
    found = sorted(tuple(row) for row in await sql.fetch(STATISTICS, "orders"))

    assert [row[:4] for row in found] == [("a", QUEUE_MODE, 4, 0), ("b", QUEUE_MODE, 2, 0)]


async def test_how_many_groups_there_are(orders: Broker, sql: asyncpg.Connection) -> None:
    await pop(orders, group="billing")

    assert await sql.fetchval(GROUPS) == 1


async def test_messages_by_trace_id(queue: Broker, sql: asyncpg.Connection) -> None:
    traced = Draft(b'{"n": 1}', "a", "order-1", TRACE)
    (receipt,) = await queue.push("orders", [traced])
    await queue.push("orders", drafts(2, "a"))

    (found,) = await sql.fetch(TRACED, TRACE)

    assert (found["id"], found["transaction_id"]) == (receipt.id, "order-1")
    assert found["payload"] == '{"n": 1}'
    assert found["is_encrypted"] is False


async def test_pages_of_messages(orders: Broker, sql: asyncpg.Connection) -> None:
    number = await sql.fetchval("SELECT id FROM queen.partitions WHERE name = 'a'")

    first = await sql.fetch(FIRST_PAGE, number, 3)
    last = first[-1]
    second = await sql.fetch(NEXT_PAGE, number, last["created_at"], last["id"], 3)

    assert [row["payload"] for row in (*first, *second)] == ["4", "3", "2", "1", "0"]


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"\xff\xfe", b'"\\u0000"', b'{"a":' * 20_000, b"nul\x00"]
)
async def test_a_payload_that_is_no_json_is_null_and_breaks_nothing(
    queue: Broker, sql: asyncpg.Connection, payload: bytes
) -> None:
    await queue.push("orders", [Draft(b"1"), Draft(payload), Draft(b"3")])

    found = await sql.fetch("SELECT payload, payload_bytes FROM queen.messages ORDER BY id")

    assert [row["payload"] for row in found] == ["1", None, "3"]
    assert found[1]["payload_bytes"] == payload


async def test_a_deleted_message_is_not_listed(queue: Broker, sql: asyncpg.Connection) -> None:
    receipts = await queue.push("orders", drafts(3))
    await queue.messages.delete(receipts[1].id)

    found = await sql.fetch("SELECT payload FROM queen.messages ORDER BY id")

    assert [row["payload"] for row in found] == ["0", "2"]


async def test_messages_have_their_producer_under_the_name_that_queens_tools_use(
    queue: Broker, sql: asyncpg.Connection
) -> None:
    await queue.push("orders", [Draft(b"1")], producer="alice")
    await queue.push("orders", [Draft(b"2")])

    found = await sql.fetch("SELECT producer_sub, producer FROM queen.messages ORDER BY id")

    assert [tuple(row) for row in found] == [("alice", "alice"), (None, None)]


async def test_ids_in_sql_are_the_ids_of_the_api(queue: Broker, sql: asyncpg.Connection) -> None:
    receipts = await queue.push("orders", drafts(2))

    found = await sql.fetch("SELECT id FROM queen.messages ORDER BY id")

    assert [row["id"] for row in found] == [receipt.id for receipt in receipts]


async def test_the_history_of_retention(queue: Broker, sql: asyncpg.Connection) -> None:
    await queue.queues.configure("orders", max_wait_time_seconds=1)
    await queue.push("orders", drafts(1))
    await queue.queues.clear("orders")

    found = await sql.fetch("SELECT messages_deleted FROM queen.retention_history")

    assert [row["messages_deleted"] for row in found] == [1]


async def test_the_queries_of_the_documentation_run(queue: Broker, sql: asyncpg.Connection) -> None:
    await queue.push("orders", [Draft(b"1", trace_id=TRACE), Draft(b"2")])
    await pop(queue)

    found = {
        statement.split()[-1]: await sql.fetch(statement)
        for page in PAGES
        for block in re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL)
        for statement in filter(str.strip, block.split(";"))
    }

    assert [row["payload"] for row in found[f"'{TRACE}'"]] == ["1"]
    assert [row["backlog"] for row in found["DESC"]] == [2]
