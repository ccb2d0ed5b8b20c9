"""A store in which something of everything has happened, and what it holds then."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from skep import Broker, Draft, KeyRing, Push
from skep.core.transfer.renumber import Shift
from skep.model.queue import Queue
from skep.store.bulk_load import Transferable
from skep.testing.clock import ManualClock
from tests.support.broker_builders import make_broker, pop
from tests.support.store_builders import NO_LIMIT, letters, unfold

TRACE = UUID(int=7)
RING = KeyRing({"2030": bytes(range(32))}, current="2030")
BYTES = bytes(range(256))


class TransferContent(NamedTuple):
    """What of the story only its consumers know."""

    lease: str
    query: UUID


async def fill_store(store: Transferable, clock: ManualClock) -> TransferContent:
    """Let it happen; the store is closed afterwards."""
    async with make_broker(store, keys=RING) as queue:
        await _orders(queue, clock)
        await _failures(queue)
        await _secrets(queue)
        query = await _streams(queue)
        await _removals(queue)
        held = await pop(queue, "shop.orders", group="audit", batch=2, partition="bob")
        await queue.ack(held, held.messages[1:])
        assert held.lease_id is not None
        return TransferContent(held.lease_id, query)


async def _orders(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.create("shop.orders", lease_time=90, retry_limit=5, priority=3)
    for n in range(6):
        drafts = [
            Draft(b"%d " % n + BYTES, "alice", f"id-{n}", TRACE if n == 4 else None),
            Draft(b"%d" % n, "bob", f"zero\x00{n}" if n % 2 else None),
        ]
        await queue.push("shop.orders", drafts, producer="till" if n < 3 else None)
        clock.advance(1)
    for group in "billing", "audit":
        done = await pop(queue, "shop.orders", group=group, batch=3, partition="alice")
        await queue.ack(done)


async def _failures(queue: Broker) -> None:
    failed = await pop(queue, "shop.orders", group="billing", batch=3, partition="bob")
    await queue.fail(failed, failed.messages[:2], error="no \x00 stock")
    await queue.ack(failed, failed.messages[2:])
    page = await queue.dead_letters.list("shop.orders")
    oldest = min(letter.number for letter in page)
    await queue.dead_letters.replay("shop.orders", [oldest])
    for message in failed.messages[1:]:
        await queue.traces.record(message.id, "info", b"{}", names=["n", "m"], worker="w")
    retried = await pop(queue, "shop.orders", group="retrying", batch=4, partition="alice")
    await queue.fail(retried, error="later")


async def _secrets(queue: Broker) -> None:
    await queue.queues.configure("secrets", encryption_enabled=True)
    await queue.push("secrets", [Draft(b"hush"), Draft(b"quiet", transaction_id="q")])
    await queue.transact([Push("secrets", [Draft(b"once")])], idempotency_key="key")


async def _streams(queue: Broker) -> UUID:
    query, _ = await queue.stream_queries.register("q", source_queue="secrets", config_hash="h")
    (first, *_) = await queue.push("secrets", [Draft(b"counted")])
    await queue.stream_queries.cycle(query.id, first.partition_number, state=[("count", b"1")])
    return query.id


async def _removals(queue: Broker) -> None:
    """The beginning of a partition goes, all of another, and one message."""
    await queue.push("cleared", [Draft(b"gone"), Draft(b"gone too")])
    await queue.queues.clear("cleared")
    alice = queue.queues._registry.queue("shop.orders").partitions["alice"]
    await queue.queues.truncate(alice, 2, "retention")
    found = await queue.messages.find("shop.orders", "alice", "id-3")
    assert found is not None
    await queue.messages.delete(found.id)


async def everything(store: Transferable, shift: int = 0) -> dict[str, Any]:
    """All that a store holds, with its numbers moved back by ``shift``."""
    queues = {queue.name: queue for queue in await store.queues()}
    held: dict[str, Any] = {
        name: await _queue(store, queue, Shift(-shift)) for name, queue in queues.items()
    }
    held["trace"] = [
        (number - shift, offset) for number, offset in await store.find_trace(TRACE.bytes, limit=9)
    ]
    named = await store.named_events("n", limit=9)
    held["named"] = list(map(Shift(-shift).event, named))
    return held


async def _queue(store: Transferable, queue: Queue, back: Shift) -> dict[str, Any]:
    partitions = list(await store.partitions(queue.number))
    heads = await store.heads(queue.number)
    journal = [
        segment
        for lane in sorted(heads)
        for segment in await store.read_journal(queue.number, lane, 0, limit=NO_LIMIT >> 10)
    ]
    return {
        "queue": back.queue(queue),
        "heads": heads,
        "partitions": list(map(back.partition, partitions)),
        "segments": {each.name: await _log(store, each.number) for each in partitions},
        "journal": [(s.lane, s.position, s.partition + back.by, s.start) for s in journal],
        "subscriptions": list(map(back.subscription, await store.subscriptions(queue.number))),
        "consumers": list(map(back.consumer, await store.consumers(queue.number))),
        "letters": list(map(back.dead_letter, await letters(store, queue))),
        "events": [
            back.event(event)
            for event in await store.all_events(queue.number, after=(0, 0, 0), limit=1000)
        ],
        "removals": list(map(back.removal, await store.removals(queue.number, limit=1000))),
    }


async def _log(store: Transferable, partition: int) -> list[Any]:
    """The messages of a partition, and where their ids lead."""
    log: list[Any] = []
    for segment in await store.read(partition, 0, messages=NO_LIMIT, size=NO_LIMIT):
        kept = list(unfold(segment))
        ids = [entry.chosen_id for entry in kept if entry.chosen_id is not None]
        found: Sequence[int | None] = await store.locate(partition, ids)
        log.append((segment.start, segment.created_at, segment.size, kept, found))
    return log
