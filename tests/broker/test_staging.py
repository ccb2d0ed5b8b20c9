"""A sink's rows are unseen until they are committed, and then there once."""

import asyncio
from uuid import uuid4

import msgspec
import pytest

from skep import Broker, KeyRing, Limits
from skep.errors import (
    Conflict,
    EncryptionUnavailable,
    Invalid,
    NotFound,
    QueueFull,
    Unavailable,
)
from skep.model.change import Change, EntryUpdate
from skep.model.sink import Published, Stage, StagedRows
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import make_broker
from tests.support.sink_builders import (
    APP,
    DUPLICATE,
    IN_STEPS,
    commit,
    kept,
    left,
    numbers,
    payloads,
    published,
    rows,
    stage,
)

TRACE = "0190a5f0-0000-7000-8000-000000000001"
DAY = 24 * 3600
RING = KeyRing({"a": bytes(32)}, current="a")


async def test_what_is_staged_is_not_seen(queue: Broker) -> None:
    await stage(queue, "s", numbers(0, 3))

    assert "orders" not in [each.name for each in await queue.queues.list()]
    assert await queue.pop("orders") is None


async def test_stages_are_published_in_the_order_given_and_rows_in_theirs(
    queue: Broker, store: Store
) -> None:
    first = await stage(queue, "b", numbers(0, 3), numbers(3, 5))
    second = await stage(queue, "a", numbers(5, 9))

    assert await commit(queue, first, second) == published(9)

    assert await payloads(queue) == [b"%d" % number for number in range(9)]
    assert await left(store) == {}


async def test_more_than_ten_chunks_are_published_in_the_order_of_their_numbers(
    queue: Broker,
) -> None:
    done = await stage(queue, "s", *(numbers(at, at + 1) for at in range(12)))

    await commit(queue, done)

    assert await payloads(queue) == [b"%d" % number for number in range(12)]


async def test_rows_keep_their_order_in_each_partition(queue: Broker) -> None:
    names = ["alice", "bob", None]
    some = rows(*(b"%d" % n for n in range(9)), partitions=names * 3)
    more = rows(b"9", b"10", partitions=["bob", "alice"])

    await commit(queue, await stage(queue, "s", some, more))

    assert await payloads(queue, partition="alice") == [b"0", b"3", b"6", b"10"]
    assert await payloads(queue, partition="bob") == [b"1", b"4", b"7", b"9"]
    assert await payloads(queue) == [b"2", b"5", b"8"]


async def test_rows_go_to_the_queues_they_name(queue: Broker) -> None:
    some = rows(b"1", b"2", b"3", queues=["mails", None, "mails"], partitions=["a", "a", None])

    await commit(queue, await stage(queue, "s", some))

    assert await payloads(queue, "mails", "a") == [b"1"]
    assert await payloads(queue, "mails") == [b"3"]
    assert await payloads(queue, "orders", "a") == [b"2"]


async def test_payloads_come_back_byte_for_byte(queue: Broker) -> None:
    odd = [b"", b"\x00", bytes(range(256)), "\u00e9\U0001f41d".encode(), b"x" * 100_000]

    await commit(queue, await stage(queue, "s", rows(*odd)))

    assert await payloads(queue) == odd


async def test_a_row_has_its_ids_and_the_one_who_staged_it(queue: Broker) -> None:
    some = rows(b"1", b"2", ids=["t1", None], traces=[None, TRACE.upper()])
    await queue.sink.stage(APP, 1, "s", 0, some, queue="orders", producer="spark")

    await commit(queue, Stage(stage="s", chunks=1, rows=2), version=1)

    first, second = await kept(queue)
    assert (first.chosen_id, first.trace_id, first.producer) == ("t1", None, "spark")
    assert (second.chosen_id, str(second.trace_id), second.producer) == (None, TRACE, "spark")


async def test_a_row_whose_transaction_id_is_known_is_not_there_twice(queue: Broker) -> None:
    await commit(queue, await stage(queue, "s", rows(b"1", b"2", ids=["a", "b"])))
    again = rows(b"3", b"4", b"5", ids=["b", "c", "c"])

    await commit(queue, await stage(queue, "s", again, version=1), version=1)

    assert await payloads(queue) == [b"1", b"2", b"4"]


async def test_the_same_chunk_again_replaces_it(queue: Broker, store: Store) -> None:
    await stage(queue, "s", numbers(0, 5), numbers(5, 6))
    done = await stage(queue, "s", numbers(7, 9), numbers(9, 10))

    await commit(queue, done)

    assert await payloads(queue) == [b"7", b"8", b"9"]
    assert await left(store) == {}


async def test_a_version_is_published_once_and_its_repetition_drops_what_it_staged(
    queue: Broker, store: Store
) -> None:
    await commit(queue, await stage(queue, "s", numbers(0, 3)))
    again = await stage(queue, "retried", numbers(0, 3))

    assert await commit(queue, again) == DUPLICATE

    assert await payloads(queue) == [b"0", b"1", b"2"]
    assert await left(store) == {}


async def test_an_older_version_than_the_last_is_refused_and_later_ones_go_on(
    queue: Broker,
) -> None:
    await commit(queue, await stage(queue, "s", numbers(0, 1), version=7), version=7)
    older = await stage(queue, "s", numbers(1, 2), version=6)

    with pytest.raises(Conflict, match=r"query-1.*version 7.*back to version 6.*txnAppId") as error:
        await commit(queue, older, version=6)

    assert f"skep application reset {APP!r}" in str(error.value)
    third = await stage(queue, "s", numbers(2, 3), version=9)
    assert await commit(queue, third, version=9) == published(1)
    assert await payloads(queue) == [b"0", b"2"]
    assert await queue.sink.last_version(APP) == 9


@pytest.mark.parametrize(
    "other",
    [
        rows(b"0", b"1"),
        rows(b"0", b"1", b"3"),
        rows(b"0", b"1", b"2", b"2"),
        rows(b"0", b"1", b"2", partitions=[None, None, "alice"]),
        rows(b"0", b"1", b"2", queues=[None, None, "mails"]),
        rows(b"0", b"1", b"2", ids=[None, None, "t"]),
        rows(b"0", b"1", b"2", traces=[None, None, TRACE]),
        rows(b"2", b"1", b"0", partitions=["alice", None, None]),
    ],
)
@pytest.mark.parametrize("version", [4, None])
@pytest.mark.parametrize("name", ["first", "again"])
async def test_the_last_version_with_other_rows_is_refused(
    queue: Broker, store: Store, other: StagedRows, version: int | None, name: str
) -> None:
    first = rows(b"0", b"1", b"2", partitions=[None, None, None])
    await commit(queue, await stage(queue, "first", first, version=version), version=version)
    again = await stage(queue, name, other, version=version)

    with pytest.raises(Conflict, match=rf"query-1.*other rows: 3 then, {len(other)} now"):
        await commit(queue, again, version=version)

    assert await payloads(queue) == [b"0", b"1", b"2"]
    await queue.sink.abort(APP, version, [again])
    assert await left(store) == {}


@pytest.mark.parametrize("limits", [Limits(), IN_STEPS])
async def test_the_same_rows_in_other_tasks_chunks_and_order_are_a_repetition(
    store: Store, limits: Limits
) -> None:
    async with make_broker(store, limits=limits) as queue:
        names = ["alice", "bob", None] * 4
        ids = ["a", None, None, None] * 3
        payload = [b"%d" % n for n in range(12)]
        whole = rows(*payload, partitions=names, ids=ids)
        await commit(queue, await stage(queue, "s", whole))
        places = [7, 3, 11, 0, 1, 9, 2, 10, 4, 8, 6, 5]

        def some(*at: int) -> StagedRows:
            return rows(
                *(payload[n] for n in at),
                partitions=[names[n] for n in at],
                ids=[ids[n] for n in at],
            )

        again = [
            await stage(queue, "t1", some(*places[:5]), some(*places[5:6])),
            await stage(queue, "t2", some(*places[6:])),
        ]

        assert await commit(queue, *again) == DUPLICATE

        assert await left(store) == {}
        assert len(await payloads(queue, partition="bob")) == 4


async def test_the_same_rows_of_an_encrypted_queue_are_a_repetition(store: Store) -> None:
    async with make_broker(store, keys=RING) as queue:
        await queue.queues.configure("orders", encryption_enabled=True)
        await commit(queue, await stage(queue, "s", numbers(0, 3)))

        assert await commit(queue, await stage(queue, "t", numbers(0, 3))) == DUPLICATE
        with pytest.raises(Conflict):
            await commit(queue, await stage(queue, "t", numbers(1, 4)))


async def test_a_query_that_runs_its_epoch_again_may_make_something_else_of_as_many_rows(
    queue: Broker,
) -> None:
    async def run(checkpoint: str | None, *chunks: StagedRows) -> Published:
        done = await stage(queue, uuid4().hex, *chunks)
        return await queue.sink.commit(APP, 0, [done], checkpoint=checkpoint)

    await run("c1", numbers(0, 3))

    assert await run("c1", numbers(3, 6)) == DUPLICATE
    assert await run("c2", numbers(0, 3)) == DUPLICATE
    for checkpoint, rows_ in (("c1", numbers(0, 4)), ("c2", numbers(3, 6)), (None, numbers(3, 6))):
        with pytest.raises(Conflict):
            await run(checkpoint, rows_)
    assert await payloads(queue) == [b"0", b"1", b"2"]


async def test_a_repetition_whose_stages_are_gone_is_refused_unless_it_is_the_same_request(
    queue: Broker,
) -> None:
    done = await stage(queue, "s", numbers(0, 3))
    await commit(queue, done)

    assert await commit(queue, done) == DUPLICATE
    with pytest.raises(Conflict, match="0 of 1 chunks"):
        await commit(queue, Stage(stage="t", chunks=1, rows=3))


async def test_a_version_that_was_committed_before_there_were_fingerprints_may_be_repeated(
    queue: Broker, store: Store
) -> None:
    known = EntryUpdate(space="sink.apps", key=APP, value=msgspec.msgpack.encode([4, None, None]))
    await store.commit([Change(entries=(known,))])

    assert await commit(queue, await stage(queue, "s", numbers(0, 3), version=4), version=4) == (
        DUPLICATE
    )
    await commit(queue, await stage(queue, "s", numbers(0, 3), version=5), version=5)
    with pytest.raises(Conflict):
        await commit(queue, await stage(queue, "s", numbers(1, 4), version=5), version=5)


async def test_an_app_that_is_reset_may_start_over(queue: Broker) -> None:
    for version in range(3):
        done = await stage(queue, "s", numbers(version, version + 1), version=version)
        await commit(queue, done, version=version)

    assert await queue.sink.reset(APP) == 2

    assert await queue.sink.last_version(APP) is None
    assert await commit(queue, await stage(queue, "s", numbers(7, 8))) == published(1)
    assert await payloads(queue) == [b"0", b"1", b"2", b"7"]


async def test_an_app_that_has_committed_nothing_cannot_be_reset(queue: Broker) -> None:
    with pytest.raises(NotFound, match="'nobody'"):
        await queue.sink.reset("nobody")
    with pytest.raises(Invalid):
        await queue.sink.reset("")


async def test_apps_and_versions_do_not_see_each_others_stages(queue: Broker) -> None:
    done = await stage(queue, "s", numbers(0, 1), version=1)
    other = await stage(queue, "s", numbers(1, 2), version=11)
    third = await stage(queue, "s", numbers(2, 3), version=1, app=f"{APP}/1")

    await commit(queue, done, version=1)
    await commit(queue, other, version=11)
    await commit(queue, third, version=1, app=f"{APP}/1")

    assert await payloads(queue) == [b"0", b"1", b"2"]


async def test_a_job_without_versions_is_published_once(queue: Broker) -> None:
    done = await stage(queue, "s", numbers(0, 1), version=None)

    assert await commit(queue, done, version=None) == published(1)
    again = await stage(queue, "s", numbers(0, 1), version=None)
    assert await commit(queue, again, version=None) == DUPLICATE

    assert await payloads(queue) == [b"0"]
    assert await queue.sink.last_version(APP) is None


async def test_a_version_without_rows_counts(queue: Broker) -> None:
    assert await commit(queue, version=3) == published(0)
    assert await commit(queue, Stage(stage="s", chunks=0, rows=0), version=4) == published(0)

    assert await queue.sink.last_version(APP) == 4


@pytest.mark.parametrize(
    ("chunks", "count"), [(3, 3), (1, 2), (2, 4), (2, 2), (0, 0), (1_000_000, 3)]
)
async def test_nothing_is_published_of_what_is_not_there_as_it_was_said(
    queue: Broker, chunks: int, count: int
) -> None:
    await stage(queue, "s", numbers(0, 2), numbers(2, 3))
    whole = await stage(queue, "whole", numbers(0, 2))

    with pytest.raises(Conflict, match="'s'"):
        await commit(queue, whole, Stage(stage="s", chunks=chunks, rows=count))

    assert await queue.pop("orders") is None
    assert await queue.sink.last_version(APP) is None
    assert await commit(queue, whole, Stage(stage="s", chunks=2, rows=3)) == published(5)


async def test_aborted_stages_are_gone_and_others_are_not(queue: Broker, store: Store) -> None:
    gone = await stage(queue, "gone", numbers(0, 2), numbers(2, 4))
    done = await stage(queue, "done", numbers(4, 5))

    await queue.sink.abort(APP, 0, [gone, Stage(stage="never", chunks=1, rows=1)])

    with pytest.raises(Conflict):
        await commit(queue, gone)
    assert await left(store) == {"sink.stages": 1, "sink.chunks": 1}
    assert await commit(queue, done) == published(1)


async def test_to_abort_after_the_commit_does_nothing(queue: Broker) -> None:
    done = await stage(queue, "s", numbers(0, 2))
    await commit(queue, done)

    await queue.sink.abort(APP, 0, [done])

    assert await payloads(queue) == [b"0", b"1"]
    assert await queue.sink.last_version(APP) == 0


async def test_a_stage_is_kept_for_a_day_after_it_was_last_touched(
    queue: Broker, store: Store, clock: ManualClock
) -> None:
    old = await stage(queue, "old", numbers(0, 1))
    await stage(queue, "long", numbers(1, 2))
    clock.advance(DAY - 1)
    await queue.sink.stage(APP, 0, "long", 1, numbers(2, 3), queue="orders")
    clock.advance(1)

    await queue.sweep()

    assert await left(store) == {"sink.stages": 2, "sink.chunks": 2}
    with pytest.raises(Conflict):
        await commit(queue, old)
    assert await commit(queue, Stage(stage="long", chunks=2, rows=2)) == published(2)


async def test_a_job_without_versions_is_forgotten_after_a_week_and_a_version_never(
    queue: Broker, store: Store, clock: ManualClock
) -> None:
    await commit(queue, version=None)
    await commit(queue, version=1)
    clock.advance(7 * DAY - 1)
    await queue.sweep()
    assert len(await store.list_entries("sink.batches", limit=10)) == 1
    clock.advance(1)

    await queue.sweep()

    assert await store.list_entries("sink.batches", limit=10) == []
    assert await commit(queue, version=1) == DUPLICATE


async def test_a_full_queue_refuses_the_whole(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=3)
    mails = rows(b"1", queues=["mails"])
    done = await stage(queue, "s", mails, numbers(0, 4))
    few = await stage(queue, "few", numbers(0, 3))

    with pytest.raises(QueueFull):
        await commit(queue, done)

    assert await queue.pop("mails") is None
    assert await queue.pop("orders") is None
    assert await commit(queue, few) == published(3)


async def test_payloads_of_an_encrypted_queue_are_never_in_the_clear(store: Store) -> None:
    async with make_broker(store, keys=RING) as queue:
        await queue.queues.configure("orders", encryption_enabled=True)
        done = await stage(queue, "s", rows(b"secret-1", b"secret-2", ids=["t", None]))

        (chunk,) = await store.list_entries("sink.chunks", limit=2)
        await commit(queue, done)

        assert b"secret" not in chunk.value
        (partition,) = await store.partitions((await queue.queues.get("orders")).number)
        (segment,) = await store.read(partition.number, 0, messages=9, size=1 << 20)
        assert b"secret" not in b"".join(segment.columns.payloads)
        assert await payloads(queue) == [b"secret-1", b"secret-2"]


async def test_what_was_staged_before_its_queue_was_encrypted_is_encrypted(store: Store) -> None:
    async with make_broker(store, keys=RING) as queue:
        done = await stage(queue, "s", rows(b"secret", b"other"))
        await queue.queues.configure("orders", encryption_enabled=True)

        await commit(queue, done)

        (partition,) = await store.partitions((await queue.queues.get("orders")).number)
        (segment,) = await store.read(partition.number, 0, messages=9, size=1 << 20)
        assert segment.columns.flags == b"\x01\x01"
        assert await payloads(queue) == [b"secret", b"other"]


async def test_rows_for_an_encrypted_queue_are_refused_without_a_key(queue: Broker) -> None:
    await queue.queues.configure("orders", encryption_enabled=True)

    with pytest.raises(EncryptionUnavailable):
        await stage(queue, "s", rows(b"1"))


async def test_nothing_is_committed_while_pushing_is_in_maintenance(queue: Broker) -> None:
    done = await stage(queue, "s", numbers(0, 1))
    await queue.maintenance.set_pushing(True)

    with pytest.raises(Unavailable):
        await commit(queue, done)

    await queue.maintenance.set_pushing(False)
    assert await commit(queue, done) == published(1)


@pytest.mark.one_server("another server does not wait for a commit that is under way")
async def test_a_commit_goes_on_when_the_caller_has_gone(queue: Broker) -> None:
    done = await stage(queue, "s", numbers(0, 3))
    caller = asyncio.ensure_future(commit(queue, done))
    await asyncio.sleep(0)

    caller.cancel()
    await asyncio.wait([caller])

    assert await commit(queue, done) == DUPLICATE
    assert await payloads(queue) == [b"0", b"1", b"2"]


async def test_of_many_who_commit_a_version_at_once_one_publishes_it(queue: Broker) -> None:
    done = [await stage(queue, f"s{number}", numbers(0, 3)) for number in range(5)]

    answers = await asyncio.gather(*(commit(queue, each) for each in done))

    assert sorted(answer.duplicate for answer in answers) == [False, True, True, True, True]
    assert await payloads(queue) == [b"0", b"1", b"2"]


async def test_of_a_commit_and_an_abort_at_once_one_wins(queue: Broker) -> None:
    done = await stage(queue, "s", numbers(0, 3))

    answer, _ = await asyncio.gather(
        commit(queue, done), queue.sink.abort(APP, 0, [done]), return_exceptions=True
    )

    was_published = not isinstance(answer, Conflict)
    assert await payloads(queue) == ([b"0", b"1", b"2"] if was_published else [])


async def test_a_version_of_more_chunks_than_are_read_at_once_is_published_whole(
    queue: Broker,
) -> None:
    chunks = [numbers(at, at + 1) for at in range(1001)]

    assert await commit(queue, await stage(queue, "s", *chunks)) == published(1001)

    assert await payloads(queue) == [b"%d" % number for number in range(1001)]


async def test_columns_in_which_nothing_is_are_as_if_they_were_not_there(queue: Broker) -> None:
    nothing = [None, None]
    some = rows(b"1", b"2", queues=nothing, partitions=nothing, ids=nothing, traces=nothing)

    await commit(queue, await stage(queue, "s", some))

    assert await payloads(queue) == [b"1", b"2"]
