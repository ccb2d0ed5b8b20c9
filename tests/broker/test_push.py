"""What a push promises: dense offsets, the order given, all of it or nothing."""

import asyncio
from collections.abc import Sequence
from enum import Enum, StrEnum
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from skep import Broker, Draft, Push, Receipt
from skep.errors import Invalid, QueueFull
from skep.model.address import message_id
from skep.model.name import DEFAULT_PARTITION
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, moment, pop, pop_all, start

TRACE = UUID("0198c3f0-0000-7000-8000-000000000001")
EVERY_BYTE = bytes(range(256))


def offsets(receipts: Sequence[Receipt]) -> list[int]:
    return [receipt.offset for receipt in receipts]


async def partition_names(queue: Broker, name: str = "orders") -> list[str]:
    return [partition.name for partition in await queue.queues.partitions(name)]


async def kept(queue: Broker, name: str = "orders") -> list[tuple[str, int, bytes]]:
    """What a queue holds: partition, offset and payload, newest first."""
    page = await queue.messages.list(name, limit=1000)
    return [(m.partition, m.offset, m.payload) for m in page.messages]


async def test_messages_get_offsets_from_zero_without_gaps(queue: Broker) -> None:
    first = await queue.push("orders", drafts(3))
    second = await queue.push("orders", drafts(2, first=3))

    assert (offsets(first), offsets(second)) == ([0, 1, 2], [3, 4])


async def test_partitions_count_their_offsets_apart(queue: Broker) -> None:
    await queue.push("orders", drafts(2, "alice"))

    receipts = await queue.push("orders", drafts(1, "bob"))

    assert offsets(receipts) == [0]


async def test_messages_come_out_in_the_order_in_which_they_went_in(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await queue.push("orders", drafts(3, first=3))

    assert await pop_all(queue, batch=2) == [b"0", b"1", b"2", b"3", b"4", b"5"]


class Region(StrEnum):
    EU = "eu"
    US = "us"


class OldRegion(str, Enum):  # noqa: UP042
    EU = "eu"
    US = "us"


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("eu", "us"),
    [(Region.EU, Region.US), (OldRegion.EU, OldRegion.US), (Name("eu"), Name("us"))],
    ids=["StrEnum", "str and Enum", "str"],
)
async def test_a_name_of_a_kind_of_its_own_is_the_name_that_it_spells(
    queue: Broker, eu: str, us: str
) -> None:
    receipts = await queue.push(
        eu,
        [Draft(b"0", eu, eu), Draft(b"1", us, us), Draft(b"2", eu), Draft(b"3", "eu")],
        producer=us,
    )
    await queue.transact([Push(eu, [Draft(b"4", eu)])], idempotency_key=eu, producer=us)

    delivery = await pop(queue, eu, group=us, batch=10, partition=eu)

    assert [(r.partition, r.offset) for r in receipts] == [
        ("eu", 0),
        ("us", 0),
        ("eu", 1),
        ("eu", 2),
    ]
    assert [message.payload for message in delivery.messages] == [b"0", b"2", b"3", b"4"]
    plain = [receipts[0].partition, receipts[0].transaction_id, delivery.group]
    plain += [m.producer or "" for m in delivery.messages]
    assert {type(text) for text in plain} == {str}


async def test_pushes_at_the_same_time_get_dense_offsets_and_stay_together(queue: Broker) -> None:
    batches = [[Draft(b"%d/%d" % (n, i)) for i in range(3)] for n in range(20)]

    found = await asyncio.gather(*(queue.push("orders", batch) for batch in batches))

    firsts = [receipts[0].offset for receipts in found]
    assert [offsets(receipts) for receipts in found] == [[at, at + 1, at + 2] for at in firsts]
    assert sorted(firsts) == list(range(0, 60, 3))
    everything = (await pop(queue, batch=100)).messages
    assert [m.payload for m in everything] == [
        draft.payload for at in range(0, 60, 3) for draft in batches[firsts.index(at)]
    ]


async def test_a_queue_is_made_at_its_first_push(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1))

    made = await queue.queues.get("orders")
    assert (made.name, made.options.lease_time) == ("orders", 300)
    assert made.created_at == clock.now()


async def test_a_queue_that_is_there_keeps_its_configuration(queue: Broker) -> None:
    configured = await queue.queues.configure("orders", namespace="shop", lease_time=7)

    await queue.push("orders", drafts(1))

    assert await queue.queues.get("orders") == configured


async def test_pushes_at_the_same_time_make_a_new_queue_once(queue: Broker) -> None:
    found = await asyncio.gather(*(queue.push("orders", drafts(1)) for _ in range(10)))

    assert sorted(receipts[0].offset for receipts in found) == list(range(10))
    assert len({receipts[0].partition_number for receipts in found}) == 1
    assert [made.name for made in await queue.queues.list()] == ["orders"]


@pytest.mark.parametrize(
    ("name", "namespace", "task"),
    [
        ("orders", None, None),
        ("shop.orders", "shop", "orders"),
        ("shop.orders.eu", "shop", "orders"),
        ("shop.orders.eu.west", "shop", "orders"),
    ],
)
async def test_namespace_and_task_of_a_new_queue_are_the_first_parts_of_a_dotted_name(
    queue: Broker, name: str, namespace: str | None, task: str | None
) -> None:
    await queue.push(name, drafts(1))

    made = await queue.queues.get(name)
    assert (made.namespace, made.task) == (namespace, task)


async def test_a_queue_made_by_a_push_is_found_by_its_namespace(queue: Broker) -> None:
    await queue.push("shop.orders", drafts(1))

    delivery = await queue.pop(namespace="shop")

    assert delivery is not None
    assert delivery.messages[0].queue == "shop.orders"


async def test_a_partition_is_made_at_its_first_push(queue: Broker) -> None:
    await queue.push("orders", drafts(1, "alice"))

    await queue.push("orders", drafts(1, "bob"))

    assert await partition_names(queue) == ["alice", "bob"]


async def test_a_draft_that_names_no_partition_goes_to_the_default_one(queue: Broker) -> None:
    (receipt,) = await queue.push("orders", [Draft(b"a")])

    assert receipt.partition == DEFAULT_PARTITION == "Default"


@pytest.mark.parametrize(
    "name", ["a/b", "%2e%2e", "\N{HONEYBEE}" * 63, "'; --", "\u202eevil", "Case", "case", " "]
)
async def test_any_printable_name_is_a_queue_and_a_partition(queue: Broker, name: str) -> None:
    (receipt,) = await queue.push(name, [Draft(b"a", name)])

    found = await pop(queue, name, partition=name)
    assert (found.messages[0].queue, found.messages[0].partition) == (name, name)
    assert found.messages[0].id == receipt.id


async def test_one_push_goes_to_several_partitions(queue: Broker) -> None:
    mixed = [
        Draft(b"a0", "alice"),
        Draft(b"b0", "bob"),
        Draft(b"a1", "alice"),
        Draft(b"c0", "carol"),
        Draft(b"b1", "bob"),
    ]

    await queue.push("orders", mixed)

    for name, expected in (("alice", [b"a0", b"a1"]), ("bob", [b"b0", b"b1"]), ("carol", [b"c0"])):
        assert await pop_all(queue, partition=name, batch=10) == expected


async def test_receipts_come_in_the_order_of_the_drafts(queue: Broker) -> None:
    names = ["bob", "alice", "bob", "carol", "alice", "bob"]

    receipts = await queue.push("orders", [Draft(b"x", name) for name in names])

    assert [receipt.partition for receipt in receipts] == names
    assert offsets(receipts) == [0, 0, 1, 0, 1, 2]


async def test_a_receipt_names_the_message_that_is_delivered(queue: Broker) -> None:
    receipts = await queue.push("orders", [Draft(b"a", "alice", "t-1"), Draft(b"b", "bob")])

    delivery = await pop(queue, batch=10, partitions=10)

    delivered = {m.partition: (m.id, m.transaction_id) for m in delivery.messages}
    assert delivered == {r.partition: (r.id, r.transaction_id) for r in receipts}


async def test_a_message_id_is_the_address_of_the_message(queue: Broker) -> None:
    (receipt,) = await queue.push("orders", drafts(1))

    assert receipt.id == message_id(receipt.partition_number, 0)
    assert (await queue.messages.get(receipt.id)).payload == b"0"


async def test_a_message_carries_what_it_was_pushed_with(queue: Broker, clock: ManualClock) -> None:
    pushed_at = moment(clock)
    draft = Draft(b"payload", "alice", "t-1", TRACE)
    await queue.push("orders", [draft], producer="service-a")
    clock.advance(60)

    (message,) = (await pop(queue)).messages

    assert (message.queue, message.partition, message.offset) == ("orders", "alice", 0)
    assert (message.payload, message.transaction_id) == (b"payload", "t-1")
    assert (message.trace_id, message.producer) == (TRACE, "service-a")
    assert (message.created_at, message.attempt) == (pushed_at, 1)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        EVERY_BYTE,
        b"\x00" * 10,
        b'{"b":1,"a":1.10,"a":2}',
        b"18446744073709551616",
        b'"\\u0000"',
        b'"\\ud800"',
        b"\xef\xbb\xbf{}",
        b"[" * 20_000,
    ],
    ids=[
        "nothing",
        "empty object",
        "every byte",
        "zeros",
        "key order",
        "2**64",
        "nul",
        "surrogate",
        "byte order mark",
        "deep",
    ],
)
async def test_a_payload_comes_back_byte_for_byte(queue: Broker, payload: bytes) -> None:
    (receipt,) = await queue.push("orders", [Draft(payload)])

    assert (await pop(queue)).messages[0].payload == payload
    assert (await queue.messages.get(receipt.id)).payload == payload


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None
)
@given(batch=st.lists(st.tuples(st.binary(max_size=300), st.sampled_from("abc")), min_size=1))
async def test_any_batch_comes_back_partition_by_partition(
    queue: Broker, batch: list[tuple[bytes, str]]
) -> None:
    await queue.push("orders", [Draft(payload, partition) for payload, partition in batch])

    for name in "abc":
        expected = [payload for payload, partition in batch if partition == name]
        assert await pop_all(queue, partition=name, batch=1000) == expected


async def test_messages_of_many_segments_come_back_in_order(queue: Broker) -> None:
    await queue.push("orders", drafts(2500))

    assert await pop_all(queue, batch=999) == [b"%d" % n for n in range(2500)]


async def test_one_bad_draft_refuses_the_whole_push(queue: Broker) -> None:
    await queue.push("orders", drafts(1, "alice"))
    bad = [*drafts(3, "alice"), *drafts(1, "bob"), Draft(b"x", "")]

    with pytest.raises(Invalid, match=r"drafts\[4\].partition: must not be empty"):
        await queue.push("orders", bad)

    assert await kept(queue) == [("alice", 0, b"0")]
    assert await partition_names(queue) == ["alice"]


async def test_a_push_that_does_not_fit_writes_to_none_of_its_partitions(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=3)
    await queue.push("orders", drafts(1, "alice"))

    with pytest.raises(QueueFull):
        await queue.push("orders", [*drafts(2, "alice"), *drafts(1, "bob")])

    assert await kept(queue) == [("alice", 0, b"0")]
    assert await partition_names(queue) == ["alice"]


async def test_a_push_wakes_who_waits_for_it(queue: Broker) -> None:
    assert await queue.pop("orders") is None
    waiting = await start(queue.pop("orders", wait=60))

    await queue.push("orders", drafts(1))

    delivery = await waiting
    assert delivery is not None
    assert [m.payload for m in delivery.messages] == [b"0"]
