"""The order of the bytes is the order of the tuples."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import assume, given, settings, strategies as st

from skep.store.rocksdb import keys

Place: TypeAlias = tuple[Any, ...]

numbers = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)
traces = st.one_of(st.binary(min_size=16, max_size=16), st.just(b"\xff" * 16))

KEYS: dict[Callable[..., bytes], st.SearchStrategy[Place]] = {
    keys.about: st.tuples(texts),
    keys.queue_key: st.tuples(numbers),
    keys.removed_queue_key: st.tuples(numbers),
    keys.name_key: st.tuples(numbers, texts),
    keys.partition_key: st.tuples(numbers, numbers),
    keys.subscription_key: st.tuples(numbers, texts),
    keys.consumer_key: st.tuples(numbers, numbers, texts),
    keys.head_key: st.tuples(numbers, numbers),
    keys.journal_key: st.tuples(numbers, numbers, numbers),
    keys.transaction_key: st.tuples(numbers, texts),
    keys.trace_id_key: st.tuples(traces, numbers, numbers),
    keys.dead_letter_key: st.tuples(numbers, numbers),
    keys.dead_message_key: st.tuples(numbers, numbers, texts),
    keys.event_key: st.tuples(numbers, numbers, numbers),
    keys.event_name_key: st.tuples(names, numbers),
    keys.outcome_key: st.tuples(texts),
    keys.outcome_age_key: st.tuples(numbers, texts),
    keys.removal_key: st.tuples(numbers, numbers),
    keys.segment_key: st.tuples(numbers, numbers),
}

OWNED = [
    keys.name_key,
    keys.partition_key,
    keys.subscription_key,
    keys.consumer_key,
    keys.head_key,
    keys.journal_key,
    keys.transaction_key,
    keys.dead_letter_key,
    keys.dead_message_key,
    keys.event_key,
    keys.removal_key,
    keys.segment_key,
]
"""Keys that belong to the queue or the partition whose number they begin with."""

every_kind = pytest.mark.parametrize("kind", KEYS, ids=lambda kind: kind.__name__)


def plain(place: Place) -> Place:
    """Texts compare by their UTF-8, as bytes do."""
    return tuple(part.encode() if isinstance(part, str) else part for part in place)


@every_kind
@settings(max_examples=40)
@given(data=st.data())
def test_keys_sort_as_their_tuples_do(kind: Callable[..., bytes], data: st.DataObject) -> None:
    a, b = data.draw(KEYS[kind]), data.draw(KEYS[kind])

    assert (kind(*a) < kind(*b)) == (plain(a) < plain(b))
    assert (kind(*a) == kind(*b)) == (a == b)


@pytest.mark.parametrize("kind", OWNED, ids=lambda kind: kind.__name__)
@settings(max_examples=40)
@given(data=st.data())
def test_what_belongs_together_is_one_range_without_strangers(
    kind: Callable[..., bytes], data: st.DataObject
) -> None:
    a, b = data.draw(KEYS[kind]), data.draw(KEYS[kind])
    prefix = kind(*a)[: 8 if kind is keys.segment_key else 9]
    assume(prefix.strip(b"\xff"))

    inside = prefix <= kind(*b) < keys.after(prefix)

    assert inside == (a[0] == b[0])


@given(st.data())
def test_every_kind_of_key_begins_with_a_letter_of_its_own(data: st.DataObject) -> None:
    lettered = [kind for kind in KEYS if kind is not keys.segment_key]
    one, other = data.draw(st.permutations(lettered))[:2]

    a, b = one(*data.draw(KEYS[one])), other(*data.draw(KEYS[other]))

    assert a[:1] != b[:1]


prefixes = st.binary(min_size=1, max_size=6).filter(lambda prefix: prefix.strip(b"\xff"))
tails = st.one_of(st.binary(max_size=6), st.just(b"\xff" * 9), st.just(b""))


@given(prefixes, tails)
def test_all_that_begins_with_a_prefix_lies_before_what_is_after_it(
    prefix: bytes, tail: bytes
) -> None:
    assert prefix <= prefix + tail < keys.after(prefix)


@given(prefixes, st.binary(max_size=8))
def test_nothing_else_lies_between_a_prefix_and_what_is_after_it(
    prefix: bytes, other: bytes
) -> None:
    assume(not other.startswith(prefix))

    assert not prefix <= other < keys.after(prefix)


@given(numbers, numbers, texts)
def test_a_consumers_key_tells_partition_and_group(queue: int, partition: int, group: str) -> None:
    key = keys.consumer_key(queue, partition, group)

    assert keys.consumer_place(key) == (partition, group)


@given(numbers, numbers)
def test_numbers_come_back(first: int, second: int) -> None:
    assert keys.unpack(keys.pack(first)) == first
    assert keys.unpack_pair(keys.pack_pair(first, second)) == (first, second)
    assert keys.last_number(keys.removal_key(first, second)) == second


@given(names, numbers)
def test_a_trace_name_is_read_back_from_its_key(name: str, number: int) -> None:
    key = keys.event_name_key(name, number)

    assert (key[1:-9].decode(), keys.last_number(key)) == (name, number)
