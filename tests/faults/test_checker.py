"""The checker, which nobody should trust before it has been seen failing.

For each invariant there are histories that break it, and there is one that breaks none.
"""

from collections.abc import Callable

import pytest

from tests.support.faults.history import Seen
from tests.support.faults.history_builder import LEASE_MS, Story, message

X, Y, Z = message(0, "x"), message(1, "y"), message(2, "z")


def good() -> Story:
    """Pushes, an unknown one among them, a failure, extensions, a takeover, a copy, again."""
    return (
        Story()
        .push(X, Y)
        .push(Z, result="info")
        .pop("l1", X, Y)
        .settle("l1", failed=(0, 1))
        .pop("l2", X, Y)
        .extend("l2", later_ms=LEASE_MS - 10)
        .settle("l2", completed=(1,))
        .pop("l3", X, Z, later_ms=LEASE_MS)
        .extend("l2", result="fail")
        .settle("l2", completed=(0,), result="fail")
        .settle("l3", failed=(0,), completed=(2,), dead=(0,))
        .letters(X)
        .audit(X, Y, Z)
        .copy("c1", 0, X, key="k1", result="info")
        .copy("c1", 0, X, Y, key="k1")
        .copy("c1", 0, X, Y, key="k1")
        .copy("c2", 2, Z, key="k2", result="fail")
        .copy("c3", 2, Z, key="k3")
        .audit(X, Y, Z, queue="b")
    )


def test_a_good_history_breaks_nothing() -> None:
    assert good().check() == []


def good_at_two_servers() -> Story:
    """Single acks, of which one is forgotten and one unknown, a give-up, a seek, and counters."""
    return (
        Story()
        .push(X, Y, Z)
        .pop("l1", X, Y)
        .settle("l1", completed=(1,))
        .settle("l1", completed=(0,), result="info")
        .give_up(2)
        .pop("l2", X, later_ms=LEASE_MS)
        .refused("l1", 0)
        .settle("l2", completed=(0,))
        .refused("l2", 0)
        .seek("beginning")
        .pop("l3", X, Y)
        .settle("l3", completed=(0, 1))
        .letters(Z)
        .audit(X, Y, Z)
        .audit(X, Y, Z, queue="b")
        .counts(messages=3, dead_letters=1, depth=0)
        .alone("2 messages", "2 messages")
    )


def test_a_good_history_of_two_servers_breaks_nothing() -> None:
    assert [each for each in good_at_two_servers().check() if not each.startswith("I2 b")] == []


def both(*seen: Seen) -> Callable[[Story], Story]:
    """An audit that finds the same in both queues."""
    return lambda story: story.audit(*seen).audit(*seen, queue="b")


def loss() -> Story:
    return both(X)(Story().push(X).push(Y))


def phantom() -> Story:
    return both(X, Y)(Story().push(X))


def aborted_read() -> Story:
    return Story().push(X, result="fail").pop("l1", X)


def two_values_at_an_offset() -> Story:
    return both(X, Y)(Story().push(X, Y).pop("l1", message(0, "y")))


def a_gap() -> Story:
    return both(X, Z)(Story().push(X).push(Z))


def a_place_given_twice() -> Story:
    return both(X, message(0, "y"))(Story().push(X).push(message(0, "y")))


def a_producer_overtaken_by_itself() -> Story:
    return both(X, Y)(Story().push(Y).push(X))


def a_hole_in_the_deliveries() -> Story:
    return both(X, Y)(Story().push(X, Y).pop("l1", Y))


def a_delivery_out_of_order() -> Story:
    return both(X, Y)(Story().push(X, Y).pop("l1", X, Y).settle("l1").pop("l2", Y, X))


def passed_over() -> Story:
    return both(X, Y)(Story().push(X, Y).pop("l1", X, Y).settle("l1", completed=(1,)))


def a_late_ack_heard() -> Story:
    story = Story().push(X).pop("l1", X).pop("l2", group="h", later_ms=2 * LEASE_MS)
    return both(X)(story.settle("l1", completed=(0,)))


def two_holders() -> Story:
    return both(X)(Story().push(X).pop("l1", X).pop("l2", X, later_ms=10))


def two_holders_of_whom_one_was_extended() -> Story:
    story = Story().push(X).pop("l1", X).extend("l1", later_ms=500)
    return both(X)(story.pop("l2", X, later_ms=600))


def a_late_extension_heard() -> Story:
    return both(X)(Story().push(X).pop("l1", X).extend("l1", later_ms=2 * LEASE_MS))


def a_late_ack_heard_after_an_extension() -> Story:
    story = Story().push(X).pop("l1", X).extend("l1", later_ms=500)
    story.pop("l2", group="h", later_ms=LEASE_MS + 100)
    return both(X)(story.settle("l1", completed=(0,)))


def an_ack_forgotten() -> Story:
    return both(X)(Story().push(X).pop("l1", X).settle("l1", completed=(0,)).pop("l2", X))


def an_ack_in_a_transaction_forgotten() -> Story:
    story = Story().push(X).pop("l1", X).copy("l1", 0, X).pop("l2", X)
    return both(X)(story)


def a_dead_letter_delivered() -> Story:
    story = Story().push(X).pop("l1", X).settle("l1", failed=(0,), dead=(0,)).letters(X)
    return both(X)(story.pop("l2", X))


def two_dead_letters() -> Story:
    return both(X)(Story().push(X).letters(X, X))


def a_dead_letter_missing() -> Story:
    return both(X)(Story().push(X).pop("l1", X).settle("l1", failed=(0,), dead=(0,)))


def acked_and_dead() -> Story:
    story = Story().push(X).pop("l1", X).settle("l1", completed=(0,)).letters(X)
    return both(X)(story)


def too_many_failures() -> Story:
    story = Story().push(X)
    for lease in ("l1", "l2", "l3"):
        story.pop(lease, X).settle(lease, failed=(0,))
    return both(X)(story)


def copied_twice() -> Story:
    story = Story().push(X).copy("c1", 0, X, result="info").copy("c2", 0, X)
    return story.audit(X).audit(X, message(1, "x"), queue="b")


def copied_in_part() -> Story:
    return Story().push(X, Y).copy("c1", 0, X, Y, result="info").audit(X, Y).audit(X, queue="b")


def copied_out_of_order() -> Story:
    story = Story().push(X, Y).copy("c1", 0, X, Y, result="info")
    return story.audit(X, Y).audit(message(0, "y"), message(1, "x"), queue="b")


def an_id_in_two_places() -> Story:
    first, second = message(0, "x", chosen="x"), message(1, "x", chosen="x")
    return both(first)(Story().push(first).push(second))


def a_key_answered_in_two_ways() -> Story:
    story = Story().push(X).copy("c1", 0, X, key="k").copy("c1", 0, message(1, "x"), key="k")
    return both(X)(story)


def a_key_refused_after_it_was_answered() -> Story:
    story = Story().push(X).copy("c1", 0, X, key="k").copy("c1", 0, X, key="k", result="fail")
    return both(X)(story)


def a_changed_payload() -> Story:
    return Story().push(X).pop("l1", Seen("p", 0, "x", "other"))


def a_single_ack_forgotten_with_the_batch() -> Story:
    story = Story().push(X, Y, Z).pop("l1", X, Y, Z).settle("l1", completed=(1,))
    return both(X, Y, Z)(story.pop("l2", X, Y, Z, later_ms=LEASE_MS))


def an_ack_forgotten_after_a_seek() -> Story:
    story = Story().push(X).seek().pop("l1", X).settle("l1", completed=(0,))
    return both(X)(story.pop("l2", X))


def a_partition_given_away_after_one_ack_of_two() -> Story:
    story = Story().push(X, Y).pop("l1", X, Y).settle("l1", completed=(1,))
    return both(X, Y)(story.pop("l2", X, later_ms=10))


def a_live_lease_that_another_server_does_not_know() -> Story:
    story = Story().push(X, Y).pop("l1", X, Y).settle("l1", completed=(0,))
    return both(X, Y)(story.refused("l1", 1))


def a_message_of_a_lease_that_another_server_does_not_know() -> Story:
    story = Story().push(X).pop("l1", X)
    return both(X)(story.refused("l1", 0, "MessageNotFound: gone"))


def given_up_and_delivered() -> Story:
    return both(X)(Story().push(X).give_up(0).pop("l1", X).letters(X))


def given_up_and_no_dead_letter() -> Story:
    return both(X)(Story().push(X).give_up(0))


def given_up_twice() -> Story:
    return both(X)(Story().push(X).give_up(0).letters(X, X))


def given_up_and_acked() -> Story:
    story = Story().push(X).pop("l1", X).settle("l1", completed=(0,)).give_up(0)
    return both(X)(story.letters(X))


def a_dead_letter_of_unknown_cause_delivered() -> Story:
    story = Story().push(X).give_up(0, result="info").letters(X)
    return both(X)(story.pop("l1", X))


def a_hole_that_nobody_gave_up() -> Story:
    return both(X, Y, Z)(Story().push(X, Y, Z).give_up(0).pop("l1", Z).letters(X))


def a_seek_back_that_passes_over() -> Story:
    return both(X, Y)(Story().push(X, Y).seek().pop("l1", Y))


def a_wrong_count() -> Story:
    return both(X)(Story().push(X).counts(messages=1, depth=1))


def an_own_write_not_read() -> Story:
    return both(X)(Story().push(X).alone("2 messages", "nothing"))


@pytest.mark.parametrize(
    ("tell", "invariant"),
    [
        (loss, "I1 "),
        (phantom, "I2 "),
        (aborted_read, "I3 "),
        (two_values_at_an_offset, "I4 "),
        (a_gap, "I4 "),
        (a_place_given_twice, "I4 "),
        (a_producer_overtaken_by_itself, "I5 "),
        (a_hole_in_the_deliveries, "I6 "),
        (a_delivery_out_of_order, "I6 "),
        (passed_over, "I6 "),
        (two_holders, "I7 "),
        (two_holders_of_whom_one_was_extended, "I7 "),
        (an_ack_forgotten, "I8 "),
        (an_ack_in_a_transaction_forgotten, "I8 "),
        (a_dead_letter_delivered, "I8 "),
        (a_single_ack_forgotten_with_the_batch, "I8 "),
        (an_ack_forgotten_after_a_seek, "I8 "),
        (given_up_and_delivered, "I8 "),
        (a_partition_given_away_after_one_ack_of_two, "I7 "),
        (a_hole_that_nobody_gave_up, "I6 "),
        (a_seek_back_that_passes_over, "I6 "),
        (a_live_lease_that_another_server_does_not_know, "I19 "),
        (a_message_of_a_lease_that_another_server_does_not_know, "I19 "),
        (given_up_and_no_dead_letter, "I10 "),
        (given_up_twice, "I10 "),
        (given_up_and_acked, "I10 "),
        (a_dead_letter_of_unknown_cause_delivered, "I10 "),
        (a_wrong_count, "I17 "),
        (an_own_write_not_read, "I20 "),
        (a_late_ack_heard, "I9 "),
        (a_late_ack_heard_after_an_extension, "I9 "),
        (a_late_extension_heard, "I9 "),
        (two_dead_letters, "I10 "),
        (a_dead_letter_missing, "I10 "),
        (acked_and_dead, "I10 "),
        (too_many_failures, "I10 "),
        (copied_twice, "I11 "),
        (copied_in_part, "I11 "),
        (copied_out_of_order, "I11 "),
        (an_id_in_two_places, "I12 "),
        (a_key_answered_in_two_ways, "I12 "),
        (a_key_refused_after_it_was_answered, "I12 "),
        (a_changed_payload, "I13 "),
    ],
)
def test_a_history_that_breaks_a_promise_is_told_so(
    tell: Callable[[], Story], invariant: str
) -> None:
    assert any(violation.startswith(invariant) for violation in tell().check())
