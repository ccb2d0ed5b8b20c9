"""How a record is stored: the same record back, or ``Corrupted``."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from skep.errors import Corrupted
from skep.model.change import Appended, Applied
from skep.model.consumer import ConsumerState, Failure, Lease
from skep.model.dead_letter import DeadLetter
from skep.model.name import LeaseId
from skep.model.queue import Partition, Queue, QueueOptions, Removal, Subscription
from skep.model.trace import TraceEvent
from skep.store.commit.evaluation import RecordedOutcome
from skep.store.rocksdb.record_codec import Decoder, encode

numbers = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
maybe = st.none() | texts
blobs = st.binary(max_size=9)

leases = st.builds(Lease, texts.map(LeaseId), numbers, numbers, numbers)
consumers = st.builds(
    ConsumerState,
    version=numbers,
    cursor=numbers,
    acked=st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple),
    run_end=numbers,
    oldest_at=numbers,
    lease=st.none() | leases,
    failed=st.lists(st.builds(Failure, numbers, texts), max_size=2).map(tuple),
)
options = st.builds(QueueOptions, lease_time=st.integers(1, 99), encryption_enabled=st.booleans())
queues = st.builds(Queue, number=numbers, name=texts, namespace=maybe, task=maybe, options=options)
partitions = st.builds(
    Partition, number=numbers, queue=numbers, name=texts, created_at=numbers, end=numbers
)
subscriptions = st.builds(
    Subscription,
    queue=numbers,
    group=texts,
    mode=texts,
    from_at=st.none() | numbers,
    created_at=numbers,
)
removals = st.builds(
    Removal, queue=numbers, partition=numbers, kind=texts, messages=numbers, executed_at=numbers
)
letters = st.builds(
    DeadLetter,
    number=numbers,
    queue=numbers,
    partition=numbers,
    offset=numbers,
    group=texts,
    error=texts,
    attempts=numbers,
    failed_at=numbers,
    payload=blobs,
    chosen_id=maybe,
    trace=st.none() | blobs,
    producer=maybe,
    created_at=numbers,
    encrypted=st.booleans(),
)
events = st.builds(
    TraceEvent,
    number=numbers,
    partition=numbers,
    offset=numbers,
    kind=texts,
    data=blobs,
    names=st.lists(texts, max_size=2).map(tuple),
    group=maybe,
    worker=maybe,
)
appends = st.builds(
    Appended,
    partition=numbers,
    offsets=st.lists(numbers, max_size=3),
    duplicates=st.frozensets(st.integers(0, 9)),
)
outcomes = st.builds(
    RecordedOutcome,
    fingerprint=blobs,
    outcome=st.builds(Applied, st.lists(appends, max_size=2).map(tuple), st.booleans()),
    created_at=numbers,
)

records: st.SearchStrategy[msgspec.Struct] = st.one_of(
    consumers, queues, partitions, subscriptions, removals, letters, events, outcomes
)


def decode(record: msgspec.Struct, value: bytes) -> Any:
    return Decoder(type(record))(value)


@given(records)
def test_a_record_comes_back_as_it_was(record: msgspec.Struct) -> None:
    assert decode(record, encode(record)) == record


@given(records, st.data())
def test_a_flipped_bit_anywhere_is_noticed(record: msgspec.Struct, data: st.DataObject) -> None:
    value = bytearray(encode(record))
    value[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(Corrupted):
        decode(record, bytes(value))


@given(records, st.data())
def test_a_record_that_is_cut_short_or_longer_is_noticed(
    record: msgspec.Struct, data: st.DataObject
) -> None:
    value = encode(record)
    cut = data.draw(st.integers(0, len(value) - 1))

    for damaged in (value[:cut], value + b"\x00", b""):
        with pytest.raises(Corrupted):
            decode(record, damaged)


def test_a_record_of_a_later_format_says_so() -> None:
    value = encode(ConsumerState())

    with pytest.raises(Corrupted, match="format 2, this version reads 1"):
        decode(ConsumerState(), b"\x02" + value[1:])


def test_a_whole_record_of_another_kind_is_noticed() -> None:
    value = encode(Removal(queue=1, partition=2, kind="k", messages=3, executed_at=4))

    with pytest.raises(Corrupted):
        decode(ConsumerState(), value)
