"""What was in one store is in the other, whole, whatever happens on the way."""

import pytest

from skep import Draft, Push
from skep.core.transfer import queue_copy as copying
from skep.core.transfer.transfer import Transfer, TransferResult, prepare
from skep.errors import Conflict, Invalid, QueueNotFound
from skep.model.queue import Queue
from skep.store.bulk_load import BulkLoad, Transferable
from skep.testing.clock import ManualClock
from tests.support.broker_builders import make_broker, payloads, pop, pop_all
from tests.support.store_builders import crowd, push
from tests.support.transfer_content import BYTES, RING, TransferContent, everything
from tests.transfer.conftest import Open


async def move(source: Transferable, target: Transferable, *names: str) -> TransferResult:
    return await (await prepare(source, target, names)).run(lambda count: None)


class Interrupted(Exception):
    pass


async def move_in_pieces(source: Transferable, target: Transferable, steps: int) -> int:
    """Begin again and again, interrupted after so many steps; returns how often."""
    for tries in range(1000):
        plan = await prepare(source, target)
        left = steps

        def told(count: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Interrupted

        try:
            await plan.run(told)
            return tries
        except Interrupted:
            pass
    raise AssertionError("it never ends")


async def test_everything_is_the_same_in_a_new_store(
    source: Transferable, target: Transferable
) -> None:
    before = await everything(source)

    moved = await move(source, target)

    assert await everything(target) == before
    assert await everything(source) == before
    assert moved == TransferResult(queues=3, messages=15, dead_letters=1, ids_kept=True)


async def test_a_queue_that_is_being_removed_is_not_moved(
    source: Transferable, target: Transferable
) -> None:
    before = await everything(source)
    doomed = await crowd(source, "doomed", 1500)
    await source.delete_queue(doomed.number)
    await source.purge()

    moved = await move(source, target)

    assert await everything(target) == before
    assert moved.queues == 3


async def test_what_several_servers_pushed_keeps_its_lanes(
    source: Transferable, target: Transferable, open_source: Open, kinds: list[str]
) -> None:
    if kinds[0] == "rocksdb":
        pytest.skip("it has one server")
    other = open_source()
    orders = (await source.queues())[0]
    alice = next(p for p in await source.partitions(orders.number) if p.name == "alice")
    for store in source, other, source, other:
        await store.commit([push(alice, b"from %d" % store.lane)])
    await other.close()
    before = await everything(source)

    await move(source, target)

    assert len(before[orders.name]["heads"]) == 2
    assert await everything(target) == before


async def test_a_store_with_queues_of_its_own_gives_new_numbers(
    source: Transferable, target: Transferable
) -> None:
    await target.load(BulkLoad(reserved=await source.last_number()))
    own = await target.put_queue(Queue(number=0, name="own"))
    await target.create_partitions(own.number, ["alice", "bob"])
    shift = await target.last_number()

    moved = await move(source, target)

    now = await everything(target, shift)
    del now["own"]
    assert now == await everything(source)
    assert not moved.ids_kept


async def test_numbers_that_moved_are_not_given_again(
    source: Transferable, target: Transferable
) -> None:
    await move(source, target)

    new = await target.put_queue(Queue(number=0, name="new"))

    assert new.number > await source.last_number()


@pytest.mark.parametrize("steps", [1, 2, 5])
async def test_what_was_interrupted_goes_on_where_it_was(
    source: Transferable, target: Transferable, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "SEGMENTS", "ROWS", "DEAD_LETTERS":
        monkeypatch.setattr(copying, name, 1)
    before = await everything(source)

    tries = await move_in_pieces(source, target, steps)

    assert tries >= 20 // steps
    assert await everything(target) == before


async def test_half_of_a_queue_is_not_found_under_its_name(
    source: Transferable, target: Transferable
) -> None:
    def told(count: int) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        await (await prepare(source, target)).run(told)

    assert all(queue.name.startswith(copying.HIDDEN) for queue in await target.queues())
    assert all(queue.namespace is None for queue in await target.queues())


async def test_a_source_that_was_used_since_is_moved_from_the_beginning(
    source: Transferable, target: Transferable, open_source: Open
) -> None:
    await _interrupt(await prepare(source, target), after=4)
    await source.close()
    async with make_broker(open_source(), keys=RING) as queue:
        await queue.push("shop.orders", [Draft(b"late", "carol")])

    again = open_source()
    moved = await move(again, target)

    assert moved.messages == 16
    assert await everything(target) == await everything(again)
    await again.close()


async def _interrupt(plan: Transfer, *, after: int) -> None:
    def told(count: int) -> None:
        nonlocal after
        after -= 1
        if not after:
            raise Interrupted

    with pytest.raises(Interrupted):
        await plan.run(told)


async def test_a_queue_of_the_same_name_is_refused_and_nothing_is_written(
    source: Transferable, target: Transferable
) -> None:
    await target.put_queue(Queue(number=0, name="secrets"))
    before = await everything(target)

    with pytest.raises(Conflict, match="already has a queue 'secrets'"):
        await prepare(source, target)

    assert await everything(target) == before


async def test_moving_again_does_nothing(source: Transferable, target: Transferable) -> None:
    first = await move(source, target)
    await target.delete_group((await target.queues())[0].number, "audit")
    before = await everything(target)

    assert await move(source, target) == first
    assert (await prepare(source, target)).messages == 0
    assert await everything(target) == before


async def test_one_queue_after_the_other_keeps_the_ids_too(
    source: Transferable, target: Transferable
) -> None:
    for name in "secrets", "shop.orders", "cleared":
        assert (await move(source, target, name)).ids_kept

    assert await everything(target) == await everything(source)


async def test_a_queue_that_is_not_there_cannot_be_moved(
    source: Transferable, target: Transferable
) -> None:
    with pytest.raises(QueueNotFound):
        await prepare(source, target, ["nothing"])


async def test_a_store_cannot_be_moved_into_itself(source: Transferable) -> None:
    with pytest.raises(Invalid):
        await prepare(source, source)


async def test_a_store_that_others_use_is_refused(
    source: Transferable, target: Transferable, open_target: Open, kinds: list[str]
) -> None:
    if kinds[1] == "rocksdb":
        pytest.skip("the lock of the directory sees to it")
    other = open_target()
    await other.queues()

    with pytest.raises(Conflict, match="stop the servers"):
        await prepare(source, target)

    await other.close()
    await prepare(source, target)


async def test_consumers_go_on_where_they_were(
    source: Transferable, target: Transferable, told: TransferContent, clock: ManualClock
) -> None:
    await move(source, target)

    async with make_broker(target, keys=RING) as queue:
        next_ = await pop(queue, "shop.orders", group="billing", partition="alice", batch=9)
        settled = await queue.ack(told.lease)
        clock.advance(30)
        retried = await pop(queue, "shop.orders", group="retrying", partition="alice", batch=9)
        fresh = await pop(queue, "shop.orders", group="fresh", partition="alice")

        assert payloads(next_) == [b"4 " + BYTES, b"5 " + BYTES]
        assert settled.completed == 1
        assert retried.messages[0].attempt == 2
        assert fresh.messages[0].offset == 2


async def test_what_was_pushed_is_a_duplicate_and_what_comes_follows(
    source: Transferable, target: Transferable
) -> None:
    await move(source, target)

    async with make_broker(target, keys=RING) as queue:
        drafts = [Draft(b"", "alice", f"id-{n}") for n in (0, 3, 4, 5)]
        receipts = await queue.push("shop.orders", drafts)
        heads = await target.heads((await target.queues())[0].number)

        assert [r.duplicate for r in receipts] == [False, False, True, True]
        assert [r.offset for r in receipts] == [6, 7, 4, 5]
        assert sum(heads.values()) == 15


async def test_dead_letters_secrets_keys_and_states_work_in_the_target(
    source: Transferable, target: Transferable, told: TransferContent
) -> None:
    await move(source, target)

    async with make_broker(target, keys=RING) as queue:
        (letter,) = await queue.dead_letters.list("shop.orders")
        (receipt,) = await queue.dead_letters.replay("shop.orders", [letter.number])
        again = await queue.transact([Push("secrets", [Draft(b"once")])], idempotency_key="key")
        partition = again.receipts[0][0].partition_number
        (state,) = [page async for page in queue.stream_queries.state(told.query, partition)]

        assert (letter.error, letter.payload, receipt.offset) == ("no \x00 stock", b"1", 7)
        assert again.repeated
        assert [(key, entry.value) for key, entry in state] == [("count", b"1")]
        assert await pop_all(queue, "secrets") == [b"hush", b"quiet", b"once", b"counted"]


async def test_states_and_keys_follow_their_partitions_to_new_numbers(
    source: Transferable, target: Transferable, told: TransferContent
) -> None:
    await target.load(BulkLoad(reserved=await source.last_number() + 100))

    assert not (await move(source, target)).ids_kept

    async with make_broker(target, keys=RING) as queue:
        again = await queue.transact([Push("secrets", [Draft(b"once")])], idempotency_key="key")
        receipt = again.receipts[0][0]
        pages = queue.stream_queries.state(told.query, receipt.partition_number)
        (state,) = [page async for page in pages]
        assert (await queue.messages.get(receipt.id)).payload == b"once"
        assert [key for key, _ in state] == ["count"]


async def test_there_and_back_again_all_is_the_same_under_new_numbers(
    source: Transferable, target: Transferable
) -> None:
    before = await everything(source)
    shift = await source.last_number()
    await move(source, target)
    for queue in await source.queues():
        await source.delete_queue(queue.number)

    await move(target, source)

    assert await everything(source, shift) == before
