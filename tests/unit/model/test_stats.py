"""Counts of messages."""

from skep.model.sink import StagedRows
from skep.model.stats import Counts
from skep.model.tally import Tally


def test_what_neither_waits_nor_is_held_is_completed() -> None:
    assert Counts(total=10, pending=3, processing=2, failed=1).completed == 5


def test_counts_of_queues_add_up() -> None:
    one = Counts(total=1, pending=2, processing=3, failed=4, dead_letters=5)

    assert one + one == Counts(total=2, pending=4, processing=6, failed=8, dead_letters=10)


def test_tallies_add_up_but_for_the_longest_lag() -> None:
    tally = Tally(pushed=1, popped=2, acked=3, failed=4, dead_letters=5, pushes=6, pops=7, acks=8)
    tally.note_lag(10)
    other = Tally()
    other.note_lag(30)

    tally.add(other)
    other.add(tally)

    assert (tally.lags, tally.lag_sum, tally.lag_max, tally.lag_mean) == (2, 40, 30, 20.0)
    assert (other.pushed, other.popped, other.acked, other.failed) == (1, 2, 3, 4)
    assert (other.dead_letters, other.pushes, other.pops, other.acks) == (5, 6, 7, 8)


def test_without_a_delivery_there_is_no_lag() -> None:
    assert Tally().lag_mean == 0


def test_staged_rows_are_counted_by_their_payloads() -> None:
    assert len(StagedRows(payloads=[b"1", None])) == 2
