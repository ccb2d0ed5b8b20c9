"""The sink's door: Arrow in, messages out, each version once."""

import random
import struct
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from skep import Broker
from skep.errors import Invalid
from skep.http.auth.principal import Permission
from skep.wire.journal.arrow_reader import to_rows
from tests.support.http.arrow_streams import bomb, shared, table_stream, to_stream
from tests.support.http.json_client import Client, somebody
from tests.support.sink_builders import kept, payloads

END = b"\xff\xff\xff\xff\0\0\0\0"
HERE = "/api/v1/journal"
TRACE = "0190a5f0-0000-7000-8000-000000000001"


def place(chunk: int = 0, **more: Any) -> dict[str, Any]:
    return {"app": "q", "version": 1, "stage": "s", "chunk": chunk, "queue": "orders"} | more


async def stage(client: Client, stream: bytes, status: int = 201, **query: Any) -> Any:
    asked = {name: value for name, value in place(**query).items() if value is not None}
    return await client.ask("POST", f"{HERE}/stage", status, params=asked, content=stream)


def stages(chunks: int = 1, rows: int = 1, **more: Any) -> dict[str, Any]:
    named = [{"stage": "s", "chunks": chunks, "rows": rows}]
    return {"app": "q", "version": 1, "stages": named} | more


async def test_rows_are_staged_and_committed_once(client: Client, broker: Broker) -> None:
    columns = {
        "payload": ["1", "2", "3"],
        "partition": ["alice", None, "alice"],
        "transaction_id": ["t1", None, None],
        "trace_id": [None, None, TRACE],
        "queue": [None, "mails", None],
    }
    assert await stage(client, to_stream(columns)) == {"rows": 3}
    assert await client.get(f"{HERE}/apps/q") == {"app": "q", "version": None}

    assert await client.post(f"{HERE}/commit", stages(rows=3)) == {"duplicate": False, "rows": 3}
    assert await client.post(f"{HERE}/commit", stages(rows=3)) == {"duplicate": True, "rows": 0}

    first, second = await kept(broker, "orders", "alice")
    assert (first.payload, first.chosen_id, first.trace_id) == (b"1", "t1", None)
    assert (second.payload, second.chosen_id, str(second.trace_id)) == (b"3", None, TRACE)
    assert await payloads(broker, "mails") == [b"2"]
    assert await client.get(f"{HERE}/apps/q") == {"app": "q", "version": 1}


async def test_other_rows_and_older_versions_are_refused_until_the_app_is_reset(
    client: Client, broker: Broker
) -> None:
    for version in (1, 2):
        await stage(client, to_stream({"payload": ["1"]}), version=version)
        await client.post(f"{HERE}/commit", stages(version=version))
    await stage(client, to_stream({"payload": ["2"]}), version=2)
    await stage(client, to_stream({"payload": ["3"]}), version=1)

    other = await client.post(f"{HERE}/commit", stages(version=2), 409)
    older = await client.post(f"{HERE}/commit", stages(version=1), 409)
    assert "version 2 of application 'q' was committed with other rows" in other["error"]
    assert "cannot go back to version 1" in older["error"]
    assert await client.delete(f"{HERE}/apps/q") == {"app": "q", "version": 2}
    assert (await client.delete(f"{HERE}/apps/q", 404))["type"] == "NotFound"
    await client.post(f"{HERE}/commit", stages(version=1))

    assert await payloads(broker) == [b"1", b"1", b"3"]


async def test_a_checkpoint_that_is_no_label_is_refused(client: Client) -> None:
    refused = await client.post(f"{HERE}/commit", stages(checkpoint="x" * 300), 400)

    assert "checkpoint" in refused["error"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
async def test_payloads_are_taken_byte_for_byte(
    client: Client, broker: Broker, kind: pa.DataType
) -> None:
    texts = ["", "\u00e9\U0001f41d", "x" * 70_000, '{"a": 1}', "\x00"]
    await stage(client, to_stream({"payload": pa.array(texts, kind)}))

    await client.post(f"{HERE}/commit", stages(rows=5))

    assert await payloads(broker) == [text.encode() for text in texts]


async def test_a_binary_payload_need_not_be_text(client: Client, broker: Broker) -> None:
    await stage(client, to_stream({"payload": [bytes(range(256))]}))

    await client.post(f"{HERE}/commit", stages())

    assert await payloads(broker) == [bytes(range(256))]


async def test_several_batches_are_one_chunk(client: Client, broker: Broker) -> None:
    batches = [pa.record_batch({"payload": [f"{n}", f"{n + 1}"]}) for n in (0, 2, 4)]
    await stage(client, table_stream(pa.Table.from_batches(batches)))

    await client.post(f"{HERE}/commit", stages(rows=6))

    assert await payloads(broker) == [b"%d" % n for n in range(6)]


async def test_a_chunk_without_rows_is_a_chunk(client: Client) -> None:
    empty = to_stream({"payload": pa.array([], pa.string())})

    assert await stage(client, empty) == {"rows": 0}
    assert await client.post(f"{HERE}/commit", stages(rows=0)) == {"duplicate": False, "rows": 0}


async def test_a_batch_job_leaves_the_version_out(client: Client, broker: Broker) -> None:
    await stage(client, to_stream({"payload": ["1"]}), version=None)

    done = await client.post(f"{HERE}/commit", stages(version=None))

    assert done == {"duplicate": False, "rows": 1}
    assert await payloads(broker) == [b"1"]


async def test_the_producer_is_who_staged(client: Client, broker: Broker) -> None:
    client.badge.principal = somebody(Permission.PUSH)
    await stage(client, to_stream({"payload": ["1"]}))

    await client.post(f"{HERE}/commit", stages())

    (message,) = await kept(broker)
    assert message.producer == "somebody"


async def test_what_is_missing_is_a_conflict(client: Client) -> None:
    await stage(client, to_stream({"payload": ["1"]}))

    for wrong in (stages(chunks=2), stages(rows=2), stages(version=2)):
        problem = await client.post(f"{HERE}/commit", wrong, 409)
        assert problem["type"] == "Conflict"

    assert await client.post(f"{HERE}/commit", stages()) == {"duplicate": False, "rows": 1}


async def test_an_abort_drops_and_after_the_commit_does_nothing(
    client: Client, broker: Broker
) -> None:
    await stage(client, to_stream({"payload": ["1"]}))
    await client.post(f"{HERE}/abort", stages(), 204)
    await client.post(f"{HERE}/commit", stages(), 409)
    await stage(client, to_stream({"payload": ["2"]}))
    await client.post(f"{HERE}/commit", stages())

    await client.post(f"{HERE}/abort", stages(), 204)

    assert await payloads(broker) == [b"2"]


async def test_who_is_for_some_queues_may_stage_for_these_only(client: Client) -> None:
    client.badge.principal = somebody(Permission.PUSH, queues=("orders",))
    both = to_stream({"payload": ["1", "2"], "queue": ["orders", "mails"]})

    await stage(client, both, 403)
    await stage(client, to_stream({"payload": ["1"]}), 403, queue="mails")

    await stage(client, to_stream({"payload": ["1"], "queue": pa.array([None], pa.string())}))


async def test_who_is_for_some_queues_may_not_publish_or_drop_what_is_for_others(
    client: Client, broker: Broker
) -> None:
    await stage(client, to_stream({"payload": ["1", "2"], "queue": ["orders", "mails"]}))
    client.badge.principal = somebody(Permission.PUSH, queues=("orders",))

    await client.post(f"{HERE}/commit", stages(rows=2), 403)
    await client.post(f"{HERE}/abort", stages(rows=2), 403)

    client.badge.principal = somebody(Permission.PUSH, queues=("orders", "mails"))
    assert await client.post(f"{HERE}/commit", stages(rows=2)) == {"duplicate": False, "rows": 2}


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"body": ["1"]}, "body"),
        ({"payload": ["1"], "offset": [1]}, "offset"),
        ({"partition": ["a"]}, "payload"),
        ({"payload": [1]}, "payload"),
        ({"payload": [{"a": 1}]}, "payload"),
        ({"payload": pa.nulls(1)}, "payload"),
        ({"payload": pa.array(["a"]).dictionary_encode()}, "payload"),
        ({"payload": pa.array(["a"], pa.string_view())}, "payload"),
        ({"payload": ["1"], "partition": [b"a"]}, "partition"),
        ({"payload": ["1"], "queue": [1]}, "queue"),
        ({"payload": ["1", None]}, "payload[1]"),
        ({"payload": ["1", "2"], "partition": ["a", "x" * 256]}, "partition[1]"),
        ({"payload": ["1", "2"], "queue": ["a", ""]}, "queue[1]"),
        ({"payload": ["1", "2"], "transaction_id": [None, "x" * 256]}, "transaction_id[1]"),
        ({"payload": ["1", "2"], "trace_id": [TRACE, "trace"]}, "trace_id[1]"),
    ],
)
async def test_columns_that_cannot_be_published_are_named(
    client: Client, columns: dict[str, Any], field: str
) -> None:
    problem = await stage(client, to_stream(columns), 400)

    assert problem["field"] == field


async def test_a_column_must_not_be_there_twice(client: Client) -> None:
    twice = pa.Table.from_arrays([pa.array(["a"])] * 2, names=["payload"] * 2)

    assert (await stage(client, table_stream(twice), 400))["field"] == "payload"


WHOLE = to_stream({"payload": ["1"] * 100, "partition": ["a"] * 100})


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"{}",
        b"not Arrow",
        END,
        END * 2,
        WHOLE[: len(WHOLE) // 2],
        WHOLE[:-1],
        WHOLE.removesuffix(END),
        WHOLE[: len(WHOLE) // 2] + END,
        b"ARROW1\0\0" + WHOLE,
        struct.pack("<iI", -1, 0x7FFFFFFF) + WHOLE,
        to_stream({"payload": ["1"] * 1000}, compression="zstd"),
        to_stream({"payload": ["1"] * 1000}, compression="lz4"),
        bomb(10, 1000),
        shared(10),
    ],
)
async def test_what_is_not_a_whole_plain_stream_is_refused(client: Client, stream: bytes) -> None:
    problem = await stage(client, stream, 400)

    assert problem["field"] == "body"


def test_a_stream_that_is_damaged_is_refused_or_read_but_never_believed() -> None:
    luck = random.Random(1)
    whole = WHOLE.removesuffix(END)

    for _ in range(3000):
        damaged = bytearray(whole)
        for at in _places(luck, len(whole)):
            damaged[at] = luck.choice([0, 1, 127, 128, 255])
        try:
            found = to_rows(bytes(damaged) + END, most=1000)
        except Invalid:
            continue
        assert sum(len(payload or b"") for payload in found.payloads) <= len(whole)


def _places(luck: random.Random, size: int) -> Iterable[int]:
    return [luck.randrange(size) for _ in range(luck.randint(1, 4))]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"app": None}, "app"),
        ({"app": "x" * 256}, "app"),
        ({"stage": None}, "stage"),
        ({"stage": "a/b"}, "stage"),
        ({"chunk": None}, "chunk"),
        ({"chunk": -1}, "chunk"),
        ({"chunk": "one"}, "chunk"),
        ({"chunk": 1 << 70}, "chunk"),
        ({"version": -1}, "version"),
        ({"version": 1 << 63}, "version"),
        ({"queue": None}, "queue[0]"),
        ({"queue": "x" * 256}, "queue"),
    ],
)
async def test_a_place_is_refused_by_parameter(
    client: Client, query: dict[str, Any], field: str
) -> None:
    problem = await stage(client, WHOLE, 400, **query)

    assert problem["field"] == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "app"),
        ({"app": "q"}, "stages"),
        ({"app": "", "stages": []}, "app"),
        (stages(version=-1), "version"),
        (stages(version="1"), "version"),
        (stages(chunks=-1), "stages[0].chunks"),
        (stages(chunks=1 << 62), "stages[0].chunks"),
        (stages(rows=-1), "stages[0].rows"),
        (stages(stages=[{"stage": "a\n", "chunks": 0, "rows": 0}]), "stages[0].stage"),
        (stages(stages=[{"stage": "a", "chunks": 0, "rows": 0}] * 2), "stages[1].stage"),
    ],
)
async def test_a_commit_is_refused_by_field(
    client: Client, body: dict[str, Any], field: str
) -> None:
    for path in ("commit", "abort"):
        await client.refused("POST", f"{HERE}/{path}", field, json=body)


async def test_a_chunk_that_is_too_large_is_refused(client: Client) -> None:
    problem = await stage(client, bytes((16 << 20) + 1), 413)

    assert problem["type"] == "TooLarge"


async def test_a_chunk_with_too_many_rows_is_refused_before_they_are_read(client: Client) -> None:
    problem = await stage(client, to_stream({"payload": [""] * 250_001}), 413)

    assert problem["error"].startswith("rows: ")
