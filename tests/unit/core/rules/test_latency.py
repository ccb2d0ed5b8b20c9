"""How long what an ack completed took."""

from collections import Counter
from itertools import accumulate

from hypothesis import given, strategies as st

from skep.core.rules.latency import Ages, ages_of, completed
from skep.model import ranges
from skep.model.consumer import ConsumerState
from skep.model.latency import bucket_of
from skep.model.segment import Columns, Segment

NOW = 1_893_499_200_000_000
HOUR = 3_600_000_000

an_age = st.one_of(st.integers(0, 60), st.integers(0, HOUR))
segments = st.lists(st.tuples(st.integers(1, 5), an_age), min_size=1, max_size=20)
"""Messages and age of each; many that are next to each other."""


@given(segments, st.data())
def test_every_message_counts_in_the_bucket_of_its_age(
    some: list[tuple[int, int]], data: st.DataObject
) -> None:
    ages = sorted((age for _, age in some), reverse=True)
    sizes = [size for size, _ in some]
    offsets = [0, *accumulate(sizes)]
    age_of = [age for size, age in zip(sizes, ages, strict=True) for _ in range(size)]
    every = range(offsets[-1])
    before, now_done, dead = (data.draw(st.sets(st.sampled_from(every))) for _ in range(3))
    now_done -= before
    dead &= now_done

    found = completed(
        Ages(offsets[:-1], [NOW - age for age in ages]),
        _state(before, run_end=len(every)),
        _state(before | now_done, run_end=len(every)),
        ranges.from_offsets(dead),
        NOW,
    )

    counts: Counter[int] = Counter()
    for bucket, messages in found:
        counts[bucket] += messages
    assert counts == Counter(bucket_of(age_of[offset]) for offset in now_done - dead)


def _state(done: set[int], *, run_end: int) -> ConsumerState:
    cursor, acked = ranges.advance(0, ranges.from_offsets(done))
    return ConsumerState(cursor=cursor, acked=acked, run_end=run_end)


def test_a_segment_gives_its_messages_the_instant_of_its_commit() -> None:
    segments = [
        Segment(
            queue=1,
            partition=1,
            start=start,
            created_at=NOW + start,
            lane=0,
            position=start,
            size=0,
            columns=Columns(payloads=[b""] * 2),
        )
        for start in (4, 6)
    ]

    assert ages_of(segments) == Ages([4, 6], [NOW + 4, NOW + 6])
