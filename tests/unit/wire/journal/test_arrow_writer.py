"""Columns of many runs as one: over buffers and in lists, long and short, in any order."""

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given, strategies as st

from skep.model.journal import MessageRun, Range, Step
from skep.model.segment import Columns, Segment
from skep.store.rocksdb import keys, segment_codec as columns
from skep.wire.journal.arrow_writer import Writer
from skep.wire.journal.journal import ReadBody

payloads = st.lists(st.binary(max_size=5), min_size=1, max_size=40)
ids = st.none() | st.text("abc", min_size=1, max_size=3)


@st.composite
def pushes(draw: st.DrawFn) -> tuple[list[bytes], list[str | None] | None, bool]:
    """Payloads, transaction ids if there are any, and whether they come from a buffer."""
    found = draw(payloads)
    chosen = draw(st.none() | st.lists(ids, min_size=len(found), max_size=len(found)))
    return found, chosen, draw(st.booleans())


@given(st.lists(pushes(), min_size=1, max_size=6), st.integers(1, 50))
def test_all_messages_are_there_in_their_order(
    made: Sequence[tuple[list[bytes], list[str | None] | None, bool]], rows: int
) -> None:
    runs, at = [], 0
    for found, chosen, stored in made:
        runs.append(run(at, Columns(payloads=found, transaction_ids=chosen), stored=stored))
        at += len(found)

    table = read(runs, at, rows)

    assert table["payload"].to_pylist() == [payload for found, _, _ in made for payload in found]
    assert table["position"].to_pylist() == list(range(at))
    expected = [
        each or own
        for (found, chosen, _), begin in zip(made, starts(made), strict=True)
        for each, own in zip(
            chosen or [None] * len(found),
            table["message_id"].to_pylist()[begin : begin + len(found)],
            strict=True,
        )
    ]
    assert table["transaction_id"].to_pylist() == expected


def starts(made: Sequence[tuple[list[bytes], object, object]]) -> list[int]:
    return [sum(len(found) for found, _, _ in made[:n]) for n in range(len(made))]


def run(position: int, made: Columns, *, stored: bool) -> MessageRun:
    count = len(made)
    if stored:
        segment = Segment(
            queue=1,
            partition=7,
            start=position,
            created_at=0,
            lane=0,
            position=position,
            size=0,
            columns=made,
        )
        key = keys.segment_key(7, position)
        made = columns.decode(key, columns.encode(segment)).columns
    return MessageRun(
        partition=7,
        name="p",
        start=position,
        created_at=0,
        lane=0,
        position=position,
        count=count,
        columns=made,
    )


def read(runs: list[MessageRun], end: int, rows: int) -> pa.Table:
    """What a reader finds in the stream."""
    body = ReadBody(
        queue="q",
        number=1,
        ranges=(Range(0, 0, end),),
        columns=("payload", "position", "message_id", "transaction_id"),
        batch_rows=rows,
        payload="binary",
    )
    writer = Writer(body)
    step = Step(runs=runs, missing=[], lanes={0: end})
    stream = b"".join([*writer.begin(), *writer.write(step), *writer.end()])
    return pa.ipc.open_stream(stream).read_all()
