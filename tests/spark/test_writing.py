"""What a task writes: the columns of messages, in chunks of a bounded size."""

import pyarrow as pa

from pyspark_skep.options import Options
from pyspark_skep.sink import chunks_of, to_ipc_stream, to_messages

OPTIONS = Options("http://127.0.0.1:1")


def test_a_queue_in_the_options_wins_over_that_of_a_column() -> None:
    """What was read from a queue has its name in a column, and would be written back to it."""
    batch = pa.RecordBatch.from_pydict({"queue": ["from"], "payload": ["x"], "offset": [1]})
    options = Options("http://127.0.0.1:1", queue=("to",), partition="p")

    assert to_messages(options, batch).to_pylist() == [{"payload": "x", "partition": "p"}]
    assert to_messages(OPTIONS, batch).to_pylist() == [{"queue": "from", "payload": "x"}]


def test_chunks_are_gathered_and_cut_to_a_size_and_keep_the_order() -> None:
    batches = [
        pa.RecordBatch.from_pydict({"payload": ["x" * 100] * 50 + ["y" * 5000]}) for _ in range(3)
    ]

    chunks = list(chunks_of(batches, 4000))

    rows = [value for chunk in chunks for part in chunk for value in part.column(0).to_pylist()]
    assert rows == [value for batch in batches for value in batch.column(0).to_pylist()]
    assert all(
        sum(part.nbytes for part in chunk) <= 4000 or sum(part.num_rows for part in chunk) == 1
        for chunk in chunks
    )
    assert len(list(chunks_of(batches, 1 << 20))) == 1


def test_a_slice_is_sent_without_what_was_cut_off() -> None:
    batch = pa.RecordBatch.from_pydict({"payload": ["x" * 1000] * 1000})

    assert len(to_ipc_stream([batch.slice(0, 1)])) < 3000


def test_nothing_makes_no_chunk() -> None:
    empty = pa.RecordBatch.from_pydict({"payload": pa.array([], pa.string())})

    assert list(chunks_of([empty], 10)) == []
