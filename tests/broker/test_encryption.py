"""Payloads at rest: never in the clear where the queue says so, and never served if altered."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from skep import Broker, Draft, KeyRing, Push
from skep.errors import DecryptionFailed, EncryptionUnavailable
from skep.model.change import Append, Applied, Change
from skep.model.dead_letter import DeadLetterFilter
from skep.model.segment import ENCRYPTED, Columns
from skep.store.open import open_store
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, letters, make_broker, payloads, pop, pop_all

NUMBER = b"4929 8173 0265"
SECRET = b"card " + NUMBER + b" \x00\xff"
KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
RING = KeyRing({"2030": KEY}, current="2030")
ROTATED = KeyRing({"2030": KEY, "2031": OTHER_KEY}, current="2031")
ONLY_NEW = KeyRing({"2031": OTHER_KEY}, current="2031")
WRONG = KeyRing({"2030": OTHER_KEY}, current="2030")

OpenWith: TypeAlias = Callable[[KeyRing | None], Awaitable[Broker]]


@pytest.fixture
async def open_with(store: Store) -> AsyncIterator[OpenWith]:
    """Opens a broker with these keys over the store, as a process does that is started."""
    opened: list[Broker] = []

    async def open_with(keys: KeyRing | None) -> Broker:
        opened.append(await make_broker(store, keys=keys).__aenter__())
        return opened[-1]

    yield open_with
    await opened[-1].close()


@pytest.fixture
async def queue(open_with: OpenWith) -> Broker:
    """A broker with a key and an encrypted queue."""
    broker = await open_with(RING)
    await broker.queues.configure("orders", encryption_enabled=True, retry_limit=0)
    return broker


async def envelopes(store: Store, broker: Broker, name: str = "orders") -> list[bytes]:
    """The payloads of a queue as they are stored."""
    number = (await broker.queues.get(name)).number
    segments = await store.read_journal(number, store.lane, 0, limit=1000)
    return [payload for segment in segments for payload in segment.columns.payloads]


async def plant(store: Store, broker: Broker, partition: str, envelope: bytes, chosen: str) -> None:
    """Put an envelope where somebody with access to the disk could have put it."""
    number = (await broker.queues.get("orders")).number
    (place,) = await store.create_partitions(number, [partition])
    columns = Columns(payloads=[envelope], transaction_ids=[chosen], flags=bytes([ENCRYPTED]))
    append = Append(queue=number, partition=place.number, columns=columns)
    done = await store.commit([Change(appends=(append,))])
    assert isinstance(done.outcomes[0], Applied)


def files(directory: Path) -> list[bytes]:
    return [file.read_bytes() for file in directory.rglob("*") if file.is_file()]


# What is stored.


async def test_a_payload_is_not_stored_in_the_clear(queue: Broker, store: Store) -> None:
    await queue.push("orders", [Draft(SECRET), Draft(SECRET, "alice", "t-1")])

    stored = await envelopes(store, queue)

    assert len(stored) == 2
    assert [NUMBER in payload for payload in stored] == [False, False]
    assert [payload[2:6] for payload in stored] == [b"2030", b"2030"]


async def test_a_payload_of_another_queue_is_stored_as_it_is(queue: Broker, store: Store) -> None:
    await queue.push("plain", [Draft(SECRET)])

    assert await envelopes(store, queue, "plain") == [SECRET]


@pytest.mark.parametrize(("name", "found"), [("orders", False), ("plain", True)])
async def test_no_file_holds_the_payload_of_an_encrypted_queue(
    tmp_path: Path, clock: ManualClock, name: str, found: bool
) -> None:
    async with make_broker(open_store(tmp_path, clock=clock), keys=RING) as queue:
        await queue.queues.configure("orders", encryption_enabled=True, retry_limit=0)
        await queue.push(name, [Draft(SECRET, "alice", "t-1")])
        while_open = files(tmp_path)

    assert any(NUMBER in content for content in while_open) == found
    assert any(NUMBER in content for content in files(tmp_path)) == found


async def test_a_dead_letter_is_not_stored_in_the_clear(queue: Broker, store: Store) -> None:
    await queue.push("orders", [Draft(SECRET)])
    await queue.fail(await pop(queue))

    number = (await queue.queues.get("orders")).number
    (letter,) = await store.dead_letters(DeadLetterFilter(queue=number), limit=10)

    assert NUMBER not in letter.payload
    assert letter.encrypted is True


async def test_the_same_payload_is_never_stored_twice_alike(queue: Broker, store: Store) -> None:
    await queue.push("orders", [Draft(SECRET) for _ in range(100)])

    assert len(set(await envelopes(store, queue))) == 100


# What comes back.


@pytest.mark.parametrize("payload", [b"", SECRET, bytes(range(256)), b"x" * 100_000])
async def test_a_payload_comes_back_byte_for_byte_in_every_way(
    queue: Broker, payload: bytes
) -> None:
    (receipt,) = await queue.push("orders", [Draft(payload, "alice")])

    delivery = await pop(queue)
    await queue.fail(delivery)
    (letter,) = await letters(queue)

    assert payloads(delivery) == [payload]
    assert (await queue.messages.get(receipt.id)).payload == payload
    by_queue = await queue.messages.list("orders")
    by_partition = await queue.messages.list("orders", partition="alice")
    assert [message.payload for message in by_queue.messages] == [payload]
    assert [message.payload for message in by_partition.messages] == [payload]
    by_id = await queue.messages.find("orders", "alice", receipt.transaction_id)
    assert by_id is not None
    assert by_id.payload == payload
    assert letter.payload == payload
    assert (await queue.dead_letters.get("orders", letter.number)).payload == payload


async def test_a_receipt_names_the_transaction_id_that_was_chosen_for_it(queue: Broker) -> None:
    receipts = await queue.push("orders", [Draft(b"a"), Draft(b"b", transaction_id="t-1")])

    found = (await pop(queue, batch=2)).messages

    assert [m.transaction_id for m in found] == [r.transaction_id for r in receipts]
    assert receipts[1].transaction_id == "t-1"


async def test_an_id_twice_is_one_message_in_an_encrypted_queue_too(queue: Broker) -> None:
    await queue.push("orders", [Draft(b"first", transaction_id="t-1")])

    (again,) = await queue.push("orders", [Draft(b"second", transaction_id="t-1")])

    assert again.duplicate is True
    assert await pop_all(queue, batch=10) == [b"first"]


async def test_a_replayed_message_can_be_read(queue: Broker) -> None:
    await queue.push("orders", [Draft(SECRET, "alice"), Draft(SECRET, "alice", "t-1")])
    await queue.fail(await pop(queue, batch=2))

    assert await queue.dead_letters.replay_all("orders") == 2

    assert await pop_all(queue, batch=10) == [SECRET, SECRET]


async def test_a_message_of_a_transaction_is_encrypted(queue: Broker, store: Store) -> None:
    await queue.transact([Push("orders", [Draft(SECRET)])])

    (envelope,) = await envelopes(store, queue)
    assert NUMBER not in envelope
    assert await pop_all(queue) == [SECRET]


async def test_a_queue_may_hold_both_kinds_when_its_option_changed(queue: Broker) -> None:
    await queue.push("orders", [Draft(b"encrypted")])
    await queue.queues.configure("orders", encryption_enabled=False)
    await queue.push("orders", [Draft(b"plain")])
    await queue.queues.configure("orders", encryption_enabled=True)

    await queue.push("orders", [Draft(b"encrypted again")])

    assert await pop_all(queue, batch=10) == [b"encrypted", b"plain", b"encrypted again"]


# Rotation.


async def test_after_a_rotation_old_messages_are_read_and_new_ones_use_the_new_key(
    queue: Broker, store: Store, open_with: OpenWith
) -> None:
    await queue.push("orders", [Draft(b"old")])

    rotated = await open_with(ROTATED)
    await rotated.push("orders", [Draft(b"new")])

    assert [envelope[2:6] for envelope in await envelopes(store, rotated)] == [b"2030", b"2031"]
    assert await pop_all(rotated, batch=10) == [b"old", b"new"]


async def test_a_dead_letter_of_an_old_key_is_replayed_after_a_rotation(
    queue: Broker, open_with: OpenWith
) -> None:
    await queue.push("orders", [Draft(SECRET)])
    await queue.fail(await pop(queue))

    rotated = await open_with(ROTATED)
    await rotated.dead_letters.replay_all("orders")

    assert await pop_all(rotated) == [SECRET]


# Without a key.


async def test_without_a_key_a_push_is_refused_and_nothing_is_written(
    queue: Broker, store: Store, open_with: OpenWith
) -> None:
    await queue.push("orders", [Draft(SECRET, "alice")])
    before = await envelopes(store, queue)

    without = await open_with(None)
    with pytest.raises(EncryptionUnavailable, match="no key is configured") as refused:
        await without.push("orders", [Draft(b"clear", "bob")])

    assert "queue 'orders' is encrypted" in str(refused.value)
    assert await envelopes(store, without) == before
    assert [found.name for found in await without.queues.partitions("orders")] == ["alice"]
    stored = await store.partitions((await without.queues.get("orders")).number)
    assert [partition.name for partition in stored] == ["alice"]


async def test_without_a_key_a_transaction_writes_nothing_at_all(
    queue: Broker, open_with: OpenWith
) -> None:
    without = await open_with(None)

    with pytest.raises(EncryptionUnavailable):
        await without.transact([Push("plain", drafts(1)), Push("orders", drafts(1))])

    assert [found.name for found in await without.queues.list()] == ["orders"]


async def test_without_a_key_other_queues_work(queue: Broker, open_with: OpenWith) -> None:
    without = await open_with(None)

    await without.push("plain", drafts(1))

    assert await pop_all(without, "plain") == [b"0"]


async def test_without_the_key_a_message_is_not_read(queue: Broker, open_with: OpenWith) -> None:
    (receipt,) = await queue.push("orders", [Draft(SECRET, "alice", "t-1")])
    await queue.push("orders", [Draft(SECRET, "bob")])
    await queue.fail(await pop(queue, partition="bob"))

    without = await open_with(ONLY_NEW)

    for read in (
        without.pop("orders", partition="alice"),
        without.messages.get(receipt.id),
        without.messages.find("orders", "alice", "t-1"),
        without.messages.list("orders"),
        without.messages.list("orders", partition="alice"),
        without.dead_letters.list("orders"),
    ):
        with pytest.raises(
            EncryptionUnavailable, match="queue 'orders': key '2030' is not in the key ring"
        ):
            await read


async def test_a_message_that_could_not_be_read_is_there_when_the_key_is_back(
    queue: Broker, open_with: OpenWith, clock: ManualClock
) -> None:
    await queue.push("orders", [Draft(SECRET)])
    without = await open_with(ONLY_NEW)
    with pytest.raises(EncryptionUnavailable):
        await without.pop("orders", partition="Default")

    again = await open_with(ROTATED)

    delivery = await pop(again)
    assert payloads(delivery) == [SECRET]
    assert delivery.messages[0].attempt == 1


async def test_a_partition_whose_key_is_missing_does_not_stop_the_others(
    queue: Broker, open_with: OpenWith, clock: ManualClock
) -> None:
    await queue.push("orders", [Draft(b"old", "alice")])
    clock.advance(1)
    rotated = await open_with(ROTATED)
    await rotated.push("orders", [Draft(b"new", "bob")])

    without_old = await open_with(ONLY_NEW)

    assert payloads(await without_old.pop("orders")) == [b"new"]


# What was altered, or moved.


async def test_a_payload_under_the_wrong_key_is_refused(queue: Broker, open_with: OpenWith) -> None:
    (receipt,) = await queue.push("orders", [Draft(SECRET)])

    wrong = await open_with(WRONG)

    with pytest.raises(DecryptionFailed):
        await wrong.messages.get(receipt.id)
    with pytest.raises(DecryptionFailed):
        await wrong.pop("orders", partition="Default")


async def test_a_payload_that_was_altered_is_refused(
    queue: Broker, store: Store, open_with: OpenWith
) -> None:
    await queue.push("orders", [Draft(SECRET, "alice", "t-1")])
    (envelope,) = await envelopes(store, queue)
    await plant(store, queue, "bob", envelope[:-1] + bytes([envelope[-1] ^ 1]), "t-1")

    restarted = await open_with(RING)

    with pytest.raises(DecryptionFailed, match="altered, or moved"):
        await restarted.pop("orders", partition="bob")


@pytest.mark.parametrize(
    ("partition", "chosen"),
    [("alice", "t-2"), ("bob", "t-1")],
    ids=["another message", "another partition"],
)
async def test_a_payload_that_was_moved_is_refused(
    queue: Broker, store: Store, open_with: OpenWith, partition: str, chosen: str
) -> None:
    await queue.push("orders", [Draft(SECRET, "alice", "t-1")])
    (envelope,) = await envelopes(store, queue)
    await plant(store, queue, partition, envelope, chosen)

    restarted = await open_with(RING)
    await restarted.pop("orders", partition="alice", auto_ack=True)

    with pytest.raises(DecryptionFailed, match="altered, or moved"):
        await restarted.pop("orders", partition=partition)


async def test_a_payload_of_another_queue_is_refused(
    queue: Broker, store: Store, open_with: OpenWith
) -> None:
    await queue.queues.configure("cards", encryption_enabled=True)
    await queue.push("cards", [Draft(SECRET, "alice", "t-1")])
    (envelope,) = await envelopes(store, queue, "cards")
    await plant(store, queue, "alice", envelope, "t-1")

    restarted = await open_with(RING)

    with pytest.raises(DecryptionFailed):
        await restarted.pop("orders", partition="alice")


async def test_one_damaged_partition_does_not_stop_the_others(
    queue: Broker, store: Store, open_with: OpenWith, clock: ManualClock
) -> None:
    await plant(store, queue, "damaged", b"\x01\x042030 not an envelope", "t-1")
    clock.advance(1)
    await queue.push("orders", [Draft(b"%d" % n, f"p{n}") for n in range(3)])

    restarted = await open_with(RING)
    found = await restarted.pop("orders", batch=10, partitions=10)

    assert sorted(payloads(found)) == [b"0", b"1", b"2"]
    assert await restarted.pop("orders") is None


async def test_a_damaged_partition_is_tried_again_later(
    queue: Broker, store: Store, open_with: OpenWith, clock: ManualClock
) -> None:
    await queue.push("orders", [Draft(SECRET)])
    wrong = await open_with(WRONG)
    with pytest.raises(DecryptionFailed):
        await wrong.pop("orders")
    assert await wrong.pop("orders") is None

    clock.advance(3600)

    with pytest.raises(DecryptionFailed):
        await wrong.pop("orders", partition="Default")


async def test_a_damaged_message_is_not_passed_over(
    queue: Broker, store: Store, open_with: OpenWith
) -> None:
    await plant(store, queue, "alice", b"\x01\x042030 not an envelope", "t-1")
    restarted = await open_with(RING)
    await restarted.push("orders", [Draft(b"behind it", "alice")])

    with pytest.raises(DecryptionFailed):
        await restarted.pop("orders", partition="alice")

    assert [lag.cursor for lag in await restarted.groups.lag("orders", "__QUEUE_MODE__")] == [0]


async def test_a_damaged_partition_can_be_left_behind_by_a_seek(
    queue: Broker, store: Store, open_with: OpenWith
) -> None:
    await plant(store, queue, "alice", b"\x01\x042030 not an envelope", "t-1")
    restarted = await open_with(RING)
    await restarted.push("orders", [Draft(b"behind it", "alice")])
    with pytest.raises(DecryptionFailed):
        await restarted.pop("orders")

    await restarted.groups.seek("orders", "__QUEUE_MODE__", 1, partition="alice")

    assert payloads(await restarted.pop("orders")) == [b"behind it"]


# What is shown.


async def test_no_error_shows_a_payload_or_a_key(
    queue: Broker, store: Store, open_with: OpenWith
) -> None:
    await queue.push("orders", [Draft(SECRET, "alice", "t-1")])
    wrong = await open_with(WRONG)

    with pytest.raises(DecryptionFailed) as refused:
        await wrong.pop("orders", partition="alice")

    chain = f"{refused.value} {refused.value!r} {refused.value.__cause__!r}"
    assert NUMBER.decode() not in chain
    assert KEY.hex() not in chain
    assert repr(KEY) not in chain
