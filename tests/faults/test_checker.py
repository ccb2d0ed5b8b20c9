"""The checker, which nobody should trust before it has been seen failing.

For each invariant there are histories that break it, and there is one that breaks none.
"""

from collections.abc import Callable
from itertools import count

import pytest
from msgspec.structs import replace

from tests.faults import checker
from tests.faults.checker import MILLISECOND
from tests.faults.history import Invocation, Operation, Result, Return, Seen, digest_of, payload_of

LEASE_MS = 1000


def message(offset: int, value: str, partition: str = "p", chosen: str | None = None) -> Seen:
    return Seen(partition, offset, value, digest_of(payload_of(value)), chosen)


class Story:
    """A history in the making, in which every step takes a millisecond."""

    def __init__(self) -> None:
        self._clock = count(MILLISECOND, MILLISECOND)
        self.operations: list[Operation] = []

    def push(self, *seen: Seen, result: Result = "ok", client: str = "ann") -> "Story":
        sent = [Seen(one.partition, -1, one.value, one.digest, one.id) for one in seen]
        return self._add(
            Invocation(does="push", client=client, queue="a", sent=sent), result, list(seen)
        )

    def pop(self, lease: str, *seen: Seen, group: str = "g", later_ms: int = 0) -> "Story":
        for _ in range(later_ms):
            next(self._clock)
        asked = Invocation(does="pop", queue="a", group=group, lease_ms=LEASE_MS)
        return self._add(asked, "ok", list(seen), lease=lease)

    def extend(self, lease: str, *, later_ms: int = 0, result: Result = "ok") -> "Story":
        for _ in range(later_ms):
            next(self._clock)
        asked = Invocation(does="extend", group="g", lease=lease, lease_ms=LEASE_MS)
        return self._add(asked, result, [])

    def settle(
        self,
        lease: str,
        *,
        completed: tuple[int, ...] = (),
        failed: tuple[int, ...] = (),
        dead: tuple[int, ...] = (),
        result: Result = "ok",
    ) -> "Story":
        asked = Invocation(
            does="settle",
            settles="a",
            group="g",
            lease=lease,
            completed=[("p", offset) for offset in completed],
            failed=[("p", offset) for offset in failed],
        )
        return self._add(asked, result, [], dead=[("p", offset) for offset in dead])

    def copy(
        self, lease: str, offset: int, *seen: Seen, key: str = "", result: Result = "ok"
    ) -> "Story":
        asked = Invocation(
            does="transact",
            queue="b",
            group="g",
            lease=lease,
            key=key,
            sent=list(seen),
            settles="a",
            completed=[("p", offset)],
        )
        return self._add(asked, result, list(seen))

    def audit(self, *seen: Seen, queue: str = "a") -> "Story":
        return self._add(Invocation(does="audit", queue=queue, group="audit"), "ok", list(seen))

    def letters(self, *seen: Seen) -> "Story":
        return self._add(Invocation(does="letters", queue="a", group="g"), "ok", list(seen))

    def check(self) -> list[str]:
        return checker.check(self.operations, retry_limit=1, copies=("a", "b"))

    def _add(
        self,
        asked: Invocation,
        result: Result,
        seen: list[Seen],
        *,
        lease: str = "",
        dead: list[tuple[str, int]] | None = None,
    ) -> "Story":
        number = len(self.operations)
        asked = replace(asked, process="x", number=number, at=next(self._clock))
        answer = Return(
            process="x",
            number=number,
            at=next(self._clock),
            result=result,
            lease=lease,
            seen=seen if result == "ok" else [],
            dead=dead or [],
        )
        self.operations.append(Operation(asked, None if result == "info" else answer))
        return self


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
