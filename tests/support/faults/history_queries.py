"""A history from several sides."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tests.support.faults.history import Operation, Seen

History: TypeAlias = Sequence[Operation]
Place: TypeAlias = tuple[str, str, int]
"""Queue, partition, offset."""


def pushes(history: History) -> list[Operation]:
    """Those that were answered, in the order in which they were sent."""
    return [op for op in history if op.asked.does in ("push", "transact") and op.is_ok]


def deliveries(history: History) -> list[Operation]:
    """In the order in which they arrived."""
    pops = [op for op in history if op.asked.does == "pop" and op.is_ok]
    return sorted(pops, key=lambda operation: operation.ended_at)


def answered(history: History) -> Iterator[tuple[str, Seen]]:
    for operation in pushes(history):
        for seen in operation.seen:
            yield operation.asked.queue, seen


def shown(history: History) -> Iterator[tuple[str, Seen]]:
    """Every message that anybody was shown, with its queue."""
    for operation in history:
        if operation.is_ok:
            for seen in operation.seen:
                yield operation.asked.queue, seen


def audit(history: History) -> Iterator[tuple[str, Seen]]:
    for operation in history:
        if operation.asked.does == "audit":
            for seen in operation.seen:
                yield operation.asked.queue, seen


def audited(history: History) -> defaultdict[str, Counter[str]]:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for queue, seen in audit(history):
        found[queue][seen.value] += 1
    return found


def audited_offsets(history: History) -> dict[tuple[str, str], list[int]]:
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for queue, seen in audit(history):
        found[queue, seen.partition].append(seen.offset)
    return found


def values(history: History, results: Sequence[str]) -> defaultdict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for operation in history:
        if operation.result in results:
            found[operation.asked.queue].update(seen.value for seen in operation.asked.sent)
    return found


def done(operation: Operation) -> Iterator[Place]:
    """What a group is done with for good, because this was answered."""
    if operation.is_ok:
        for partition, offset in (*operation.asked.completed, *dead(operation)):
            yield operation.asked.settles, partition, offset


def spoken_of(history: History) -> set[tuple[str, Place]]:
    """What each group may be done with: acknowledged, answered or not, or given up."""
    return {
        (op.asked.group, (op.asked.settles, *place))
        for op in history
        if op.result != "fail"
        for place in op.asked.completed
    } | {
        (op.asked.group, (op.asked.queue, *seen.place))
        for op in history
        if op.asked.does == "letters"
        for seen in op.seen
    }


def dead(operation: Operation) -> list[tuple[str, int]]:
    return operation.answer.dead if operation.answer else []


class Seeks:
    """Which groups were moved, and when that may have happened."""

    def __init__(self, history: History) -> None:
        self._seeks: defaultdict[tuple[str, str], list[Operation]] = defaultdict(list)
        for op in history:
            if op.asked.does == "seek" and op.result != "fail":
                self._seeks[op.asked.settles, op.asked.group].append(op)

    def between(self, queue: str, group: str, start: int, end: int) -> bool:
        """Whether one may have happened after ``start`` and before ``end``."""
        found = self._seeks.get((queue, group), ())
        return any(op.asked.at < end and op.ended_at > start for op in found)

    def forward(self, queue: str, group: str, end: int = 1 << 63) -> bool:
        """Whether one that passes messages over may have happened before ``end``."""
        found = self._seeks.get((queue, group), ())
        return any(op.asked.at < end and op.asked.to != "beginning" for op in found)


def given_up(history: History) -> set[tuple[str, Place]]:
    """What may have been given up for a group before it was delivered."""
    return {
        (op.asked.group, (op.asked.settles, *place))
        for op in history
        if op.asked.does == "give_up" and op.result != "fail"
        for place in op.asked.failed
    }
