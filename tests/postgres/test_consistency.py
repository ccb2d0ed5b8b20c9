"""Two servers that follow each other only when they must: what one commits the other acts on.

Nothing is polled in the background here, so whatever a server knows of the other it has asked for.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from skep import Ack, Broker, Delivery, Draft, Extend, KeyRing, Push, Verdict
from skep.errors import (
    EncryptionUnavailable,
    InMaintenance,
    LeaseLost,
    MessageNotFound,
    QueueFull,
)
from skep.model.change import IdempotencyKey, Outcome
from skep.model.operation import Operation
from skep.model.segment import ENCRYPTED
from skep.store.postgres.store import PostgresStore

ROUNDS = 5
KEYS = KeyRing({"k": bytes(32)}, current="k")


def server(url: str) -> Broker:
    return Broker(PostgresStore(url), keys=KEYS, sweep_interval=None, follow_interval=None)


@pytest.fixture
async def a(url: str) -> AsyncIterator[Broker]:
    async with server(url) as broker:
        yield broker


@pytest.fixture
async def b(url: str, a: Broker) -> AsyncIterator[Broker]:
    async with server(url) as broker:
        yield broker


def drafts(count: int, first: int = 0, partition: str = "p") -> list[Draft]:
    return [Draft(b"%d" % number, partition) for number in range(first, first + count)]


async def pop(broker: Broker, queue: str = "orders", batch: int = 100, **asked: int) -> Delivery:
    delivery = await broker.pop(queue, batch=batch, **asked)  # type: ignore[arg-type]
    assert delivery is not None
    return delivery


async def left(broker: Broker, queue: str = "orders") -> list[bytes]:
    """What a group still gets, once every lease is given back."""
    await broker.groups.list(queue)
    delivery = await broker.pop(queue, batch=1000)
    return [message.payload for message in delivery.messages] if delivery else []


# Decisions made on one state and committed on another.


async def test_acks_of_single_messages_at_both_servers_all_count(a: Broker, b: Broker) -> None:
    for number in range(ROUNDS):
        await a.push("orders", drafts(30, 30 * number))
        delivery = await pop(a, batch=30)

        acks = [
            (a, b)[index % 2].ack(delivery, [message])
            for index, message in enumerate(delivery.messages)
        ]
        settled = await asyncio.gather(*acks)

        assert [each.completed for each in settled] == [1] * 30
        assert await left(a) == []


async def test_a_message_is_given_up_or_acknowledged_never_both(a: Broker, b: Broker) -> None:
    for number in range(ROUNDS):
        queue = f"orders{number}"
        receipts = await a.push(queue, drafts(3))
        delivery = await pop(a, queue, batch=2)
        third = receipts[2].id

        results = await asyncio.gather(
            b.messages.give_up(third),
            a.ack(delivery, delivery.messages[:1]),
            b.ack(delivery, delivery.messages[1:]),
            return_exceptions=True,
        )

        assert not [each for each in results if isinstance(each, BaseException)]
        assert await left(b, queue) == []
        assert [letter.offset for letter in await a.dead_letters.list(queue)] == [2]


async def test_a_late_ack_changes_nothing_at_the_server_that_did_not_see_the_takeover(
    a: Broker, b: Broker
) -> None:
    await a.push("orders", drafts(2))
    late = await pop(a, batch=2, lease_seconds=1)
    await b.groups.seek("orders", late.group, "beginning")
    again = await pop(b, batch=2)

    with pytest.raises(LeaseLost):
        await a.ack(late)

    assert (await b.ack(again)).completed == 2


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_what_is_pushed_after_encryption_was_enabled_elsewhere_is_encrypted(
    a: Broker, b: Broker, sql: asyncpg.Connection, number: int
) -> None:
    await b.push("orders", drafts(1))
    await a.queues.configure("orders", encryption_enabled=True)

    await b.push("orders", drafts(1, 1))

    flags = await sql.fetch("SELECT flags FROM queen.segment ORDER BY start_offset")
    assert [row[0] for row in flags] == [None, bytes([ENCRYPTED])]
    assert [message.payload for message in (await pop(a)).messages] == [b"0", b"1"]


async def test_a_transaction_and_a_replay_respect_encryption_that_was_enabled_elsewhere(
    a: Broker, b: Broker, sql: asyncpg.Connection
) -> None:
    await b.queues.configure("orders", retry_limit=0)
    await b.push("orders", drafts(1))
    await b.fail(await pop(b))
    (letter,) = await b.dead_letters.list("orders")
    await a.queues.configure("orders", encryption_enabled=True)

    await b.transact([Push("orders", drafts(1, 1))])
    await b.dead_letters.replay("orders", [letter.number])

    flags = await sql.fetch("SELECT flags FROM queen.segment WHERE start_offset > 0")
    assert [row[0] for row in flags] == [bytes([ENCRYPTED])] * 2
    assert [message.payload for message in (await pop(a)).messages] == [b"1", b"0"]


async def test_without_a_key_nothing_is_pushed_in_the_clear(url: str, a: Broker) -> None:
    async with Broker(PostgresStore(url), sweep_interval=None, follow_interval=None) as keyless:
        await keyless.push("orders", drafts(1))
        await a.queues.configure("orders", encryption_enabled=True)

        with pytest.raises(EncryptionUnavailable):
            await keyless.push("orders", drafts(1))


async def test_a_queue_never_takes_more_than_fits_from_both_servers_together(
    a: Broker, b: Broker
) -> None:
    await b.push("orders", drafts(1))
    await a.queues.configure("orders", max_size=50)

    results = await asyncio.gather(
        *((a, b)[number % 2].push("orders", drafts(3)) for number in range(40)),
        return_exceptions=True,
    )

    accepted = sum(not isinstance(each, BaseException) for each in results)
    assert {type(each) for each in results if isinstance(each, BaseException)} == {QueueFull}
    assert (await a.queues.stats("orders")).depth == 1 + 3 * accepted == 49


async def test_maintenance_keeps_the_order_of_a_producer_that_alternates(
    a: Broker, b: Broker
) -> None:
    for number in range(ROUNDS):
        queue = f"orders{number}"
        for offset in range(12):
            broker = (a, b)[offset % 2]
            if offset == 3:
                await a.maintenance.set_pushing(True)
            if offset == 8:
                await b.maintenance.set_pushing(False)
            await push_or_buffer(broker, queue, offset)
        await until_normal(a)
        assert await left(b, queue) == [b"%d" % offset for offset in range(12)]


async def push_or_buffer(broker: Broker, queue: str, number: int) -> None:
    """As the HTTP server does it."""
    while True:
        if broker.maintenance.buffers and await broker.maintenance.buffer(
            {queue: drafts(1, number)}, None
        ):
            return
        try:
            await broker.push(queue, drafts(1, number))
        except InMaintenance:
            continue
        return


async def until_normal(broker: Broker) -> None:
    async with asyncio.timeout(10):
        while True:
            await broker.catch_up()
            if not broker.maintenance.buffers:
                return
            await asyncio.sleep(0.01)


async def test_pops_that_were_paused_elsewhere_find_nothing(a: Broker, b: Broker) -> None:
    await b.push("orders", drafts(1))
    await a.maintenance.set_popping(True)

    assert await b.pop("orders") is None

    await a.maintenance.set_popping(False)
    assert await b.pop("orders") is not None


# Repeated requests.


async def test_a_repeated_transaction_gets_its_first_answer_when_its_messages_are_gone(
    a: Broker, b: Broker
) -> None:
    await a.push("orders", drafts(2))
    delivery = await pop(a)
    operations: list[Operation] = [
        Ack(str(delivery.lease_id), verdicts(delivery)),
        Push("done", drafts(1)),
    ]
    first = await a.transact(operations, idempotency_key="once")

    await b.queues.delete("orders")
    await b.queues.delete("done")
    again = await b.transact(operations, idempotency_key="once")

    assert again.repeated
    assert [list(each) for each in again.receipts] == [list(each) for each in first.receipts]
    assert again.settlements == first.settlements


async def test_the_same_key_at_both_servers_at_once_is_applied_once(a: Broker, b: Broker) -> None:
    for number in range(ROUNDS):
        queue = f"orders{number}"
        await a.push(queue, drafts(2))
        delivery = await pop(a, queue)
        operations: list[Operation] = [
            Ack(str(delivery.lease_id), verdicts(delivery)),
            Push("done", drafts(1)),
        ]

        answers = await asyncio.gather(
            *(each.transact(operations, idempotency_key=f"once{number}") for each in (a, b))
        )

        assert sorted(answer.repeated for answer in answers) == [False, True]
        assert list(answers[0].receipts[0]) == list(answers[1].receipts[0])
    assert (await a.queues.stats("done")).messages == ROUNDS


class Overtaken(PostgresStore):
    """A store in which something happens right after it was asked for an idempotency key."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._find, self.find_outcome = self.find_outcome, self._find_and_wait

    async def _find_and_wait(self, key: IdempotencyKey) -> Outcome | None:
        found = await self._find(key)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return found


async def test_a_transaction_that_another_server_applies_meanwhile_gets_its_answer(
    url: str, a: Broker
) -> None:
    await a.push("orders", drafts(2))
    delivery = await pop(a)
    operations: list[Operation] = [Ack(str(delivery.lease_id), None), Push("done", drafts(1))]
    store = Overtaken(url)
    async with Broker(store, sweep_interval=None, follow_interval=None) as late:

        async def meanwhile() -> None:
            await a.transact(operations, idempotency_key="once")
            await late.catch_up()

        store.meanwhile = meanwhile

        answer = await late.transact(operations, idempotency_key="once")

    assert answer.repeated
    assert answer.settlements[0].completed == 2


def verdicts(delivery: Delivery) -> list[Verdict]:
    return [Verdict(message.partition_number, message.offset) for message in delivery.messages]


# Servers that see each other's commits.


async def test_what_is_read_after_a_commit_elsewhere_includes_it(a: Broker, b: Broker) -> None:
    for number in range(ROUNDS):
        queue = f"orders{number}"
        (receipt, _) = await a.push(queue, drafts(2))

        assert (await b.messages.get(receipt.id)).payload == b"0"
        assert (await b.queues.stats(queue)).depth == 2
        assert [each.name for each in await b.queues.partitions(queue)] == ["p"]
        await a.messages.delete(receipt.id)
        with pytest.raises(MessageNotFound):
            await b.messages.get(receipt.id)


async def test_a_lease_of_one_is_settled_extended_and_transacted_at_the_other(
    a: Broker, b: Broker
) -> None:
    for number in range(ROUNDS):
        queue = f"orders{number}"
        await a.push(queue, drafts(3))
        delivery = await pop(a, queue)

        assert await b.held_messages.queues_of_lease(delivery.lease_id or "") == {queue}  # type: ignore[arg-type]
        await b.extend(delivery, 60)
        await b.transact([Extend(str(delivery.lease_id), 60), Push("done", drafts(1))])
        assert (await b.ack(delivery)).completed == 3


async def test_a_transaction_over_leases_of_the_other_server_settles_both(
    a: Broker, b: Broker
) -> None:
    await a.push("orders", drafts(1))
    await a.push("payments", drafts(1))
    leases = [str((await pop(a, queue)).lease_id) for queue in ("orders", "payments")]

    done = await b.transact([Ack(lease, None) for lease in leases], required_leases=leases)

    assert [settlement.completed for settlement in done.settlements] == [1, 1]


async def test_a_seek_to_the_end_passes_what_the_other_server_took(a: Broker, b: Broker) -> None:
    await a.push("orders", drafts(1))
    assert await b.pop("orders") is not None
    await a.push("orders", drafts(3, 1))

    await b.groups.seek("orders", "__QUEUE_MODE__", "end")

    assert await left(a) == []


async def test_a_clear_removes_what_the_other_server_took(a: Broker, b: Broker) -> None:
    await b.push("orders", drafts(1))
    await a.push("orders", drafts(3, 1))

    assert await b.queues.clear("orders") == 4
    assert await left(a) == []


async def test_two_clears_at_once_leave_both_servers_with_the_same_depth(
    a: Broker, b: Broker
) -> None:
    for number in range(ROUNDS):
        await a.push("orders", drafts(20, 20 * number))

        removed = await asyncio.gather(a.queues.clear("orders"), b.queues.clear("orders"))
        await b.push("orders", drafts(1))

        assert sum(removed) >= 20
        depths = [(await each.queues.stats("orders")).depth for each in (a, b)]
        assert depths == [1, 1]


async def test_a_queue_that_is_created_again_is_another_queue_at_every_server(
    a: Broker, b: Broker
) -> None:
    await a.push("orders", drafts(2))
    assert await b.pop("orders") is not None
    for number in range(ROUNDS):
        await b.queues.delete("orders")
        _, partition = await a.queues.create("orders")
        (receipt,) = await b.push("orders", [Draft(b"new%d" % number)])

        delivery = await pop(a)

        assert receipt.partition_number == partition
        assert [message.payload for message in delivery.messages] == [b"new%d" % number]
        assert (await b.ack(delivery)).completed == 1


async def test_a_queue_whose_rows_were_deleted_by_sql_is_created_again_by_a_transaction(
    a: Broker, sql: asyncpg.Connection
) -> None:
    await a.push("orders", drafts(1))
    await sql.execute("DELETE FROM queen.queue")
    await sql.execute("DELETE FROM queen.partition")
    await sql.execute("DELETE FROM queen.segment")
    await sql.execute("DELETE FROM queen.lane_head")

    done = await a.transact([Push("orders", drafts(1, 5))])

    assert done.receipts[0][0].offset == 0
    assert await left(a) == [b"5"]


async def test_retention_that_was_disabled_elsewhere_removes_nothing(a: Broker, b: Broker) -> None:
    await b.queues.configure("orders", retention_enabled=True, retention_seconds=1)
    await b.push("orders", drafts(3))
    await a.queues.configure("orders", retention_enabled=False)
    later = datetime.now(UTC) + timedelta(hours=1)

    await b._parts.sweeper.sweep(int(later.timestamp() * 1_000_000))

    assert await left(a) == [b"0", b"1", b"2"]


# Lanes that change hands.


LIVE = "SELECT expires_at > now() FROM queen.lane"


async def expire_lanes(sql: asyncpg.Connection) -> None:
    """As if every server had been silent for longer than its lane is leased."""
    await sql.execute("UPDATE queen.lane SET expires_at = now() - interval '1 hour'")


async def test_a_server_hears_of_the_server_that_took_its_lane(
    url: str, a: Broker, sql: asyncpg.Connection
) -> None:
    await a.push("orders", drafts(1))
    await expire_lanes(sql)
    async with server(url) as heir:
        assert heir._store.lane == a._store.lane
        await heir.push("orders", drafts(4, 1))
        await heir.push("payments", drafts(2))

        assert len((await pop(a)).messages) == 5
        assert (await a.queues.stats("payments")).depth == 2


async def test_a_server_that_regains_its_lane_knows_what_its_holder_did_meanwhile(
    url: str, a: Broker, sql: asyncpg.Connection
) -> None:
    await a.push("orders", drafts(1))
    lane = a._store.lane
    await expire_lanes(sql)
    async with server(url) as heir:
        await heir.push("orders", drafts(8, 1))
        await heir.push("payments", drafts(3))

    await a.push("orders", drafts(1, 9))

    assert a._store.lane == lane
    assert len((await pop(a)).messages) == 10
    assert (await a.queues.stats("payments")).depth == 3


async def test_events_that_were_deleted_unheard_are_noticed_on_the_own_lane_too(
    url: str, a: Broker, sql: asyncpg.Connection
) -> None:
    await a.push("orders", drafts(1))
    await expire_lanes(sql)
    async with server(url) as heir:
        await heir.push("orders", drafts(8, 1))
        await heir.push("payments", drafts(3))
    await a.push("orders", drafts(1, 9))
    await sql.execute("DELETE FROM queen.news WHERE number < (SELECT max(number) FROM queen.news)")

    assert len((await pop(a)).messages) == 10
    assert (await a.queues.stats("payments")).depth == 3


async def test_an_idle_server_keeps_its_lane(
    url: str, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skep.store.postgres.lane._RENEW_AFTER", 0)
    async with Broker(PostgresStore(url), sweep_interval=None, follow_interval=0.01) as idle:
        await expire_lanes(sql)

        async with asyncio.timeout(10):
            while not await sql.fetchval(LIVE):  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.01)

        assert await sql.fetchval("SELECT count(*) FROM queen.lane") == 1
        assert idle._store.lane == 0


async def test_what_was_deleted_or_given_up_among_missed_events_is_known(
    a: Broker, b: Broker, sql: asyncpg.Connection
) -> None:
    await b.queues.configure("orders", retry_limit=0)
    (secret, _) = await a.push("orders", drafts(2))
    assert (await a.insight.queues.queue("orders")).counts.dead_letters == 0
    await b.messages.delete(secret.id)
    await b.fail(await pop(b))
    await sql.execute("DELETE FROM queen.news WHERE number < (SELECT max(number) FROM queen.news)")

    with pytest.raises(MessageNotFound):
        await a.messages.get(secret.id)
    assert (await a.insight.queues.queue("orders")).counts.dead_letters == 1


async def test_a_server_whose_lane_has_expired_is_no_reason_to_believe_to_be_alone(
    a: Broker, b: Broker, sql: asyncpg.Connection
) -> None:
    await a.push("orders", drafts(1))
    await b.push("payments", drafts(1))
    await expire_lanes(sql)
    await b.catch_up()

    await a.push("orders", drafts(2, 1))

    assert len((await pop(b)).messages) == 3


async def test_a_server_that_believes_to_be_alone_hears_of_the_first_commit_of_another(
    url: str,
) -> None:
    async with Broker(PostgresStore(url), sweep_interval=None, follow_interval=0.02) as alone:
        await alone.push("orders", drafts(1))
        async with asyncio.timeout(10):
            while alone._store.has_peers:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.01)
        async with server(url) as newcomer:
            await newcomer.push("orders", drafts(3, 1))

            assert len((await pop(alone)).messages) == 4


async def test_buffered_messages_are_delivered_to_a_queue_that_is_full_by_then(a: Broker) -> None:
    await a.queues.configure("orders", max_size=1)
    await a.maintenance.set_pushing(True)
    await a.maintenance.buffer({"orders": drafts(3)}, None)

    await a.maintenance.set_pushing(False)
    await until_normal(a)

    assert await left(a) == [b"0", b"1", b"2"]
    await a.push("payments", drafts(1))


async def test_a_group_that_starts_at_the_end_elsewhere_has_no_backlog_in_new_partitions(
    a: Broker, b: Broker
) -> None:
    await b.push("orders", drafts(1, partition="heard"))
    assert (await a.queues.stats("orders")).depth == 1
    await b.push("orders", drafts(1, partition="unheard"))
    assert await b.pop("orders", group="late", subscription_mode="new") is None

    assert (await a.queues.stats("orders")).depth == 0
