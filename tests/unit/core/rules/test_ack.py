"""What verdicts do to a group's state in a partition."""

from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from skep.core.rules import lease as leases
from skep.core.rules.ack import MAX_ERROR, RETRIES_EXHAUSTED, Settled, complete_all, settle
from skep.errors import Invalid
from skep.model import ranges
from skep.model.consumer import ConsumerState, Failure
from skep.model.name import SECOND, LeaseId, Offset
from skep.model.operation import Verdict
from skep.model.queue import QueueOptions

NOW = 1000 * SECOND
PARTITION = 7
TWO_RETRIES = QueueOptions(retry_limit=2, retry_delay=1000)
END = 40
"""The end of the partition that a made-up story is about."""

STATUSES = ["completed", "failed", "retry", "dead_letter"]
verdict_kinds = st.sampled_from(["completed", "failed", "dead_letter", "retry"])
calls = st.one_of(
    st.just(None),
    st.dictionaries(st.integers(min_value=0, max_value=END - 1), verdict_kinds, min_size=1),
)
"""What a consumer says: of some offsets something, or of all that they are done."""


def held(cursor: Offset = 0, end: Offset = 5, *, retries: int = 0) -> ConsumerState:
    """A group that holds a lease on ``[cursor, end)``."""
    free = ConsumerState(cursor=cursor, run_end=end if retries else 0, retries=retries)
    return grant(free, end)


def grant(consumer: ConsumerState, end: Offset) -> ConsumerState:
    return leases.grant(
        consumer,
        lease_id=LeaseId("a"),
        end=end,
        skipped=(),
        now=NOW,
        seconds=30,
        oldest_at=NOW,
        next_at=NOW,
    )


def say(
    consumer: ConsumerState, *verdicts: Verdict, options: QueueOptions = TWO_RETRIES
) -> Settled:
    return settle(consumer, verdicts, options=options, now=NOW, jitter=0)


def done(*offsets: Offset) -> list[Verdict]:
    return [Verdict(PARTITION, offset) for offset in offsets]


def failed(*offsets: Offset, error: str = "no") -> list[Verdict]:
    return [Verdict(PARTITION, offset, "failed", error) for offset in offsets]


def retry(*offsets: Offset) -> list[Verdict]:
    return [Verdict(PARTITION, offset, "retry") for offset in offsets]


def dead(*offsets: Offset, error: str = "no") -> list[Verdict]:
    return [Verdict(PARTITION, offset, "dead_letter", error) for offset in offsets]


def lost(settled: Settled) -> list[Offset]:
    return sorted(failure.offset for failure in settled.dead)


# Completed.


def test_the_cursor_passes_what_is_done_from_the_front() -> None:
    settled = say(held(), *done(0, 1))

    assert (settled.state.cursor, settled.state.acked) == (2, ())
    assert settled.completed == 2
    assert settled.released is False


def test_what_is_done_behind_a_gap_waits_as_a_range() -> None:
    settled = say(held(), *done(1, 2, 4))

    assert (settled.state.cursor, settled.state.acked) == (0, ((1, 3), (4, 5)))


def test_closing_the_gap_moves_the_cursor_over_all_of_it() -> None:
    settled = say(say(held(), *done(1, 2, 4)).state, *done(0))

    assert (settled.state.cursor, settled.state.acked) == (3, ((4, 5),))


def test_the_last_message_of_a_run_ends_the_lease() -> None:
    settled = say(held(), *done(4, 3, 2, 1, 0))

    assert settled.released is True
    assert settled.state == ConsumerState(
        version=2,
        cursor=5,
        oldest_at=NOW,
        messages_consumed=5,
        batches_consumed=1,
        last_consumed_at=NOW,
    )


def test_saying_it_again_changes_no_count() -> None:
    first = say(held(), *done(0, 3)).state

    again = say(first, *done(0, 3))

    assert again.completed == 0
    assert again.state.messages_consumed == 2
    assert (again.state.cursor, again.state.acked) == (1, ((3, 4),))


@pytest.mark.parametrize("offset", [5, 6, 2**63])
def test_a_message_that_the_lease_does_not_hold_is_refused(offset: Offset) -> None:
    with pytest.raises(Invalid, match=f"offset: message {offset} is not held by this lease"):
        say(held(), *done(0, offset))


@pytest.mark.parametrize("status", STATUSES)
def test_a_message_twice_in_one_call_is_refused(status: str) -> None:
    twice = [Verdict(PARTITION, 2), Verdict(PARTITION, 2, status)]  # type: ignore[arg-type]

    with pytest.raises(Invalid, match="offset: message 2 is settled twice in one call"):
        say(held(), *twice)


def test_settling_without_a_lease_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="needs a lease"):
        say(ConsumerState(), *done(0))


# Failed as a whole.


def test_a_batch_of_which_all_failed_comes_again_later() -> None:
    settled = say(held(), *failed(0, 1, 2, 3, 4))

    assert settled.retry_at == NOW + SECOND
    assert settled.dead == []
    assert settled.released is True
    state = settled.state
    assert (state.cursor, state.run_end, state.retries) == (0, 5, 1)
    assert (state.ready_at, state.failed) == (NOW + SECOND, ())


def test_every_further_failure_waits_twice_as_long() -> None:
    settled = say(held(retries=1), *failed(0, 1, 2, 3, 4))

    assert settled.retry_at == NOW + 2 * SECOND


def test_a_batch_that_failed_too_often_becomes_dead_letters() -> None:
    settled = say(held(retries=2), *failed(0, 1, 2, 3, 4))

    assert lost(settled) == [0, 1, 2, 3, 4]
    assert settled.retry_at is None
    assert (settled.state.cursor, settled.state.retries) == (5, 0)
    assert settled.completed == 0


def test_a_failure_is_remembered_while_the_rest_is_not_reported() -> None:
    settled = say(held(), *failed(0, 1))

    assert settled.released is False
    assert settled.dead == []
    assert settled.state.failed == (Failure(0, "no"), Failure(1, "no"))


def test_a_batch_may_fail_in_several_calls() -> None:
    settled = say(say(held(), *failed(3, 1)).state, *failed(0, 2, 4))

    assert settled.retry_at == NOW + SECOND


# Failed in part.


def test_what_failed_beside_something_done_is_dead_at_once_and_the_cursor_passes_it() -> None:
    settled = say(held(), *done(0, 2, 4), *failed(1, 3))

    assert lost(settled) == [1, 3]
    assert settled.completed == 3
    assert settled.state.cursor == 5
    assert settled.released is True


def test_a_failure_reported_before_the_first_success_is_dead_with_it() -> None:
    settled = say(say(held(), *failed(1)).state, *done(0))

    assert lost(settled) == [1]
    assert settled.state.cursor == 2


def test_a_failure_reported_after_a_success_is_dead_at_once() -> None:
    settled = say(say(held(), *done(4)).state, *failed(1))

    assert lost(settled) == [1]
    assert settled.state.acked == ((1, 2), (4, 5))


def test_the_last_word_on_a_message_counts_while_its_fate_is_open() -> None:
    settled = say(say(held(), *failed(0, 1)).state, *done(1))

    assert lost(settled) == [0]
    assert settled.completed == 1


def test_completing_a_run_as_a_whole_gives_up_what_was_reported_as_failed() -> None:
    settled = complete_all(say(held(), *failed(1)).state, now=NOW)

    assert lost(settled) == [1]
    assert settled.completed == 4
    assert settled.state.cursor == 5


def test_completing_a_run_as_a_whole_counts_what_was_not_done_before() -> None:
    settled = complete_all(say(held(), *done(1, 3)).state, now=NOW)

    assert settled.completed == 3
    assert settled.state.messages_consumed == 5


# Given up, given back.


def test_a_message_may_be_given_up_at_once() -> None:
    settled = say(held(), *dead(2))

    assert settled.dead == [Failure(2, "no")]
    assert settled.state.acked == ((2, 3),)
    assert settled.released is False


def test_a_message_reported_as_failed_may_still_be_given_up() -> None:
    settled = say(say(held(), *failed(2)).state, *dead(2, error="really"))

    assert settled.dead == [Failure(2, "really")]
    assert settled.state.failed == ()


def test_a_message_given_up_after_it_failed_is_one_dead_letter_with_the_last_reason() -> None:
    failing = say(held(), *failed(0, error="first")).state

    settled = say(failing, *dead(0, error="last"), *done(1))

    assert settled.dead == [Failure(0, "last")]


def test_a_batch_given_back_comes_again_at_once_without_what_was_done() -> None:
    settled = say(held(), *done(0, 3), *retry(1))

    assert settled.released is True
    assert settled.retry_at is None
    state = settled.state
    assert (state.cursor, state.acked, state.run_end) == (1, ((3, 4),), 5)
    assert (state.retries, state.ready_at) == (0, 0)


def test_giving_back_the_last_open_message_keeps_it() -> None:
    settled = say(held(end=2), *done(0), *retry(1))

    assert settled.state.cursor == 1
    assert settled.state.run_end == 2


# The text of an error.


def test_a_failure_without_a_reason_gets_one() -> None:
    assert say(held(), *failed(0, error="")).state.failed == (Failure(0, RETRIES_EXHAUSTED),)
    assert say(held(), *dead(0, error="")).dead == [Failure(0, "given up by the consumer")]


def test_a_long_reason_is_cut() -> None:
    settled = say(held(), *dead(0, error="x" * 10_000))

    assert settled.dead == [Failure(0, "x" * MAX_ERROR)]


# Any story.


def apply(consumer: ConsumerState, said: dict[Offset, str] | None) -> Settled:
    """What a consumer says, as far as the lease holds it."""
    if said is None:
        return complete_all(consumer, now=NOW)
    verdicts = [
        Verdict(PARTITION, offset, status)  # type: ignore[arg-type]
        for offset, status in said.items()
        if offset < consumer.run_end
    ]
    return say(consumer, *verdicts)


def not_settled(consumer: ConsumerState) -> set[Offset]:
    return set(ranges.missing(consumer.acked, consumer.cursor, END))


def check_tidy(consumer: ConsumerState) -> None:
    """What is done beyond the cursor lies beyond it, apart, and within the run."""
    bounds = [consumer.cursor, *(bound for pair in consumer.acked for bound in pair)]
    assert bounds == sorted(set(bounds))
    if consumer.run_end:
        assert bounds[-1] <= consumer.run_end


@given(st.lists(st.tuples(st.integers(min_value=1, max_value=12), calls), max_size=25))
def test_no_story_moves_the_cursor_back_leaves_a_gap_or_brings_a_settled_message_back(
    story: Iterable[tuple[int, dict[Offset, str] | None]],
) -> None:
    consumer = ConsumerState()
    open_offsets = set(range(END))
    for size, said in story:
        if consumer.lease is None:
            again = consumer.run_end > consumer.cursor
            end = consumer.run_end if again else min(consumer.cursor + size, END)
            if end == consumer.cursor:
                break
            consumer = grant(consumer, end)

        settled = apply(consumer, said)

        assert settled.state.cursor >= consumer.cursor
        assert settled.state.version > consumer.version
        assert not_settled(settled.state) <= open_offsets
        gone = open_offsets - not_settled(settled.state)
        assert len(gone) == settled.completed + len(settled.dead)
        assert set(lost(settled)) <= gone
        assert gone <= set(range(consumer.run_end))
        check_tidy(settled.state)
        open_offsets -= gone
        consumer = settled.state


def test_a_retry_of_a_message_that_failed_before_does_not_keep_a_run_that_is_done() -> None:
    reported = say(held(end=2), *failed(0)).state

    settled = say(reported, Verdict(PARTITION, 0, "retry"), *done(1))

    assert [failure.offset for failure in settled.dead] == [0]
    assert (settled.state.cursor, settled.released) == (2, True)
