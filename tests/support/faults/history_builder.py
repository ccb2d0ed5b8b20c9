"""Histories made by hand, to see the checker fail."""

from itertools import count

from msgspec.structs import replace

from tests.support.faults import history_checker as checker
from tests.support.faults.history import (
    Invocation,
    Operation,
    Result,
    Return,
    Seen,
    digest_of,
    payload_of,
)
from tests.support.faults.lease_checker import MILLISECOND

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

    def refused(self, lease: str, offset: int, error: str = "LeaseLost: gone") -> "Story":
        """An ack of one message that another server does not know."""
        asked = Invocation(
            does="settle", settles="a", group="g", lease=lease, completed=[("p", offset)]
        )
        return self._add(asked, "fail", [], error=error)

    def give_up(self, offset: int, *, result: Result = "ok") -> "Story":
        asked = Invocation(does="give_up", settles="a", group="g", failed=[("p", offset)])
        return self._add(asked, result, [], dead=[("p", offset)] if result == "ok" else None)

    def seek(self, to: str = "beginning", *, result: Result = "ok") -> "Story":
        return self._add(Invocation(does="seek", settles="a", group="g", to=to), result, [])

    def alone(self, expects: str, got: str) -> "Story":
        asked = Invocation(does="alone", queue="mine", server="second", expects=expects)
        return self._add(asked, "ok", [], got=got)

    def counts(self, **counts: int) -> "Story":
        asked = Invocation(does="counts", queue="a", server="second")
        return self._add(asked, "ok", [], counts=counts)

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
        counts: dict[str, int] | None = None,
        got: str = "",
        error: str = "",
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
            counts=counts or {},
            got=got,
            error=error,
        )
        self.operations.append(Operation(asked, None if result == "info" else answer))
        return self
