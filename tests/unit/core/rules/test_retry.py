"""When a batch that failed comes again."""

import pytest
from hypothesis import given, strategies as st

from skep.core.rules.retry import JITTER, MAX_DELAY, retry_at
from skep.model.name import MILLISECOND, SECOND
from skep.model.queue import QueueOptions

NOW = 1000 * SECOND
HOUR = 3_600_000
"""In milliseconds, as a queue's delay is given."""
FOR_EVER = 2**31 - 1
counts = st.integers(min_value=0, max_value=FOR_EVER - 1)
jitters = st.floats(min_value=0, max_value=1)


def delay(retries: int, *, jitter: float = 0, retry_delay: int = 1000) -> int:
    options = QueueOptions(retry_limit=FOR_EVER, retry_delay=retry_delay)
    due = retry_at(options, retries=retries, now=NOW, jitter=jitter)
    assert due is not None
    return due - NOW


@pytest.mark.parametrize(("retries", "seconds"), [(0, 1), (1, 2), (2, 4), (3, 8), (11, 2048)])
def test_the_delay_doubles_with_every_failure(retries: int, seconds: int) -> None:
    assert delay(retries) == seconds * SECOND


def test_the_delay_starts_with_what_the_queue_says_in_milliseconds() -> None:
    assert delay(0, retry_delay=250) == 250 * MILLISECOND


def test_a_queue_without_a_delay_tries_again_at_once() -> None:
    assert delay(20, jitter=1, retry_delay=0) == 0


@pytest.mark.parametrize("retries", [12, 30, 31, 1000, FOR_EVER - 1])
def test_the_delay_has_an_end(retries: int) -> None:
    assert delay(retries) == MAX_DELAY


@given(counts, jitters, st.integers(0, MAX_DELAY // MILLISECOND))
def test_no_delay_is_longer_than_an_hour_with_its_luck(
    retries: int, jitter: float, retry_delay: int
) -> None:
    assert delay(retries, jitter=jitter, retry_delay=retry_delay) <= MAX_DELAY


@pytest.mark.parametrize("retries", [0, 1, 30])
def test_a_delay_of_more_than_an_hour_is_stretched_and_not_doubled(retries: int) -> None:
    hours = [delay(retries, jitter=jitter, retry_delay=2 * HOUR) for jitter in (0, 1)]

    assert hours == [2 * HOUR * MILLISECOND, 12 * HOUR * MILLISECOND // 5]


@given(counts, jitters)
def test_luck_stretches_a_delay_and_never_shortens_it(retries: int, jitter: float) -> None:
    plain = delay(retries)

    assert plain <= delay(retries, jitter=jitter) <= plain * (1 + JITTER)


def test_two_consumers_with_different_luck_part_ways() -> None:
    assert delay(0, jitter=0.5) == 1_100 * MILLISECOND
    assert delay(0, jitter=1) == 1_200 * MILLISECOND


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_batch_is_given_up_after_as_many_retries_as_allowed(limit: int) -> None:
    options = QueueOptions(retry_limit=limit)

    again = [retry_at(options, retries=done, now=NOW, jitter=0) for done in range(limit + 2)]

    assert [due is not None for due in again] == [True] * limit + [False, False]
