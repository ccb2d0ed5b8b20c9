"""Latencies as counts: how exact they are, and that they add up."""

from collections import Counter
from collections.abc import Sequence
from math import ceil

from hypothesis import given, strategies as st

from skep.model.latency import ERROR, Sketch, add, bucket_of, seconds_of

WEEK = 7 * 24 * 3600 * 1_000_000
ROUNDING = 1e-9

latencies = st.lists(st.integers(1, WEEK), min_size=1)


def sketch(some: Sequence[int]) -> Sketch:
    return dict(Counter(map(bucket_of, some)))


def quantile(counts: Sketch, share: float) -> float:
    """What so large a share of the messages did not exceed, in seconds."""
    rank = max(1, ceil(share * sum(counts.values())))
    for bucket in sorted(counts):
        rank -= counts[bucket]
        if rank <= 0:
            return seconds_of(bucket)
    raise AssertionError("the counts are fewer than their sum")


@given(latencies, st.floats(0, 1))
def test_every_quantile_is_as_exact_as_is_promised(some: list[int], share: float) -> None:
    exact = sorted(some)[max(1, ceil(share * len(some))) - 1] / 1_000_000

    found = quantile(sketch(some), share)

    assert abs(found - exact) <= exact * (ERROR + ROUNDING)


@given(latencies, latencies)
def test_the_sum_of_two_sketches_is_the_sketch_of_all(some: list[int], others: list[int]) -> None:
    whole = sketch(some)

    add(whole, sketch(others))

    assert whole == sketch(some + others)


def test_what_took_no_time_counts_as_a_microsecond() -> None:
    assert bucket_of(0) == bucket_of(1)
