"""What a sink cannot publish is refused when it is staged, and named by column and row."""

import pytest

from skep import Broker, Limits
from skep.core.sink.chunk import CHUNK_ROWS
from skep.errors import Invalid
from skep.model.sink import Stage, StagedRows
from skep.store.protocol import Store
from tests.support.broker_builders import make_broker
from tests.support.sink_builders import APP, commit, left, numbers, published, rows, stage

TRACE = "0190a5f0-0000-7000-8000-000000000001"
LONG = "x" * 256


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (rows(b"1", None), "payload[1]"),
        (rows(b"1", b"x" * 101), "payload[1]"),
        (rows(b"1", "2"), "payload[1]"),  # type: ignore[arg-type]
        (rows(b"1", b"2", queues=["orders", LONG]), "queue[1]"),
        (rows(b"1", b"2", queues=["orders", ""]), "queue[1]"),
        (rows(b"1", b"2", partitions=[None, "a\n"]), "partition[1]"),
        (rows(b"1", b"2", partitions=["a", LONG]), "partition[1]"),
        (rows(b"1", b"2", partitions=["a"]), "partition"),
        (rows(b"1", b"2", ids=["a", ""]), "transaction_id[1]"),
        (rows(b"1", b"2", ids=["a", LONG]), "transaction_id[1]"),
        (rows(b"1", b"2", ids=["a"]), "transaction_id"),
        (rows(b"1", b"2", traces=[TRACE, "no"]), "trace_id[1]"),
        (rows(b"1", b"2", traces=[None, "0" * 32]), "trace_id[1]"),
        (StagedRows(payloads=[b""] * (CHUNK_ROWS + 1)), "rows"),
    ],
)
async def test_what_could_be_refused_is_refused_when_it_is_staged(
    store: Store, wrong: StagedRows, field: str
) -> None:
    async with make_broker(store, limits=Limits(payload_bytes=100)) as queue:
        with pytest.raises(Invalid) as refused:
            await stage(queue, "s", wrong)

        assert refused.value.field == field
        assert await left(store) == {}


async def test_a_row_without_a_queue_is_refused_if_there_is_no_default(queue: Broker) -> None:
    for some in (rows(b"1"), rows(b"1", queues=[None])):
        with pytest.raises(Invalid) as refused:
            await queue.sink.stage(APP, 0, "s", 0, some)
        assert refused.value.field == "queue[0]"


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"app": ""}, "app"),
        ({"app": LONG}, "app"),
        ({"app": "a\x1fb"}, "app"),
        ({"app": "\ud800"}, "app"),
        ({"version": -1}, "version"),
        ({"version": 1 << 63}, "version"),
        ({"version": True}, "version"),
        ({"stage": "a/b"}, "stage"),
        ({"stage": ""}, "stage"),
        ({"stage": LONG}, "stage"),
        ({"stage": "a\x00"}, "stage"),
        ({"chunk": -1}, "chunk"),
        ({"chunk": 1_000_000}, "chunk"),
        ({"queue": ""}, "queue"),
    ],
)
async def test_a_place_that_cannot_be_is_refused(
    queue: Broker, asked: dict[str, object], field: str
) -> None:
    place: dict[str, object] = {"app": APP, "version": 1, "stage": "s", "chunk": 0, "queue": "q"}

    with pytest.raises(Invalid) as refused:
        await queue.sink.stage(rows=rows(b"1"), **(place | asked))  # type: ignore[arg-type]

    assert refused.value.field == field


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (Stage(stage="a", chunks=0, rows=0), "stages[1].stage"),
        (Stage(stage="a/b", chunks=0, rows=0), "stages[1].stage"),
        (Stage(stage="b", chunks=-1, rows=0), "stages[1].chunks"),
        (Stage(stage="b", chunks=1 << 40, rows=0), "stages[1].chunks"),
        (Stage(stage="b", chunks=0, rows=-1), "stages[1].rows"),
        (Stage(stage="b", chunks=0, rows=1 << 70), "stages[1].rows"),
    ],
)
async def test_stages_that_cannot_be_are_refused(queue: Broker, wrong: Stage, field: str) -> None:
    stages = [Stage(stage="a", chunks=0, rows=0), wrong]

    for call in (queue.sink.commit, queue.sink.abort):
        with pytest.raises(Invalid) as refused:
            await call(APP, 1, stages)
        assert refused.value.field == field


async def test_names_of_255_characters_are_taken_whatever_their_bytes(queue: Broker) -> None:
    app = stage_name = "\U0001f41d" * 255

    done = await stage(queue, stage_name, numbers(0, 1), app=app, version=1 << 53)

    assert await commit(queue, done, app=app, version=1 << 53) == published(1)
    assert await queue.sink.last_version(app) == 1 << 53
