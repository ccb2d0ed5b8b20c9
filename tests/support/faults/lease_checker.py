"""Whether leases were kept: nobody else in time, nothing afterwards, and heard until then."""

from collections import defaultdict
from collections.abc import Iterator

from tests.support.faults import history_queries as views
from tests.support.faults.history import Operation
from tests.support.faults.history_queries import History

MILLISECOND = 1_000_000
"""In the nanoseconds of a history."""
NEVER = 1 << 63
REFUSALS = ("LeaseLost", "MessageNotFound", "PartitionNotFound", "QueueNotFound", "GroupNotFound")
"""What is said to who holds nothing; other refusals leave the lease as it is."""


def exclusive_leases(history: History) -> list[str]:
    """Nobody gets a partition before the time of its holder is over, unless he has spoken of
    all that he holds of it.

    To ask for more time is to say nothing; whoever gets it holds on from when he asked.
    """
    over = _spoken_of_all(history)
    extended: defaultdict[str, int] = defaultdict(int)
    for operation in history:
        asked = operation.asked
        if asked.does == "extend" and operation.is_ok:
            extended[asked.lease] = asked.at + asked.lease_ms * MILLISECOND
    holders: dict[tuple[str, str, str], tuple[str, int, int]] = {}
    seeks = views.Seeks(history)
    found = []
    for operation in views.deliveries(history):
        asked, lease = operation.asked, operation.answer.lease if operation.answer else ""
        for partition in {seen.partition for seen in operation.seen}:
            line = asked.queue, asked.group, partition
            holder, since, until = holders.get(line, ("", 0, 0))
            quiet = over.get((holder, partition), NEVER) > operation.ended_at
            moved = seeks.between(asked.queue, asked.group, since, operation.ended_at)
            held = operation.ended_at < max(until, extended[holder])
            if holder and quiet and held and not moved:
                found.append(f"I7 {line}: {lease} was given while {holder} was held")
            if lease:
                holders[line] = lease, asked.at, asked.at + asked.lease_ms * MILLISECOND
    return found


def late_acks(history: History) -> list[str]:
    """Whoever speaks when his time is over is not heard."""
    until = {
        operation.answer.lease: operation.ended_at + operation.asked.lease_ms * MILLISECOND
        for operation in views.deliveries(history)
        if operation.answer and operation.answer.lease
    }
    found = []
    for operation in history:
        asked, last = operation.asked, until.get(operation.asked.lease, NEVER)
        # The repetition of a transaction is answered at any time.
        if operation.is_ok and not asked.key and asked.at > last:
            found.append(f"I9 {asked.lease} was heard after its time")
        if asked.does == "extend" and operation.result != "fail":
            until[asked.lease] = max(last, operation.ended_at + asked.lease_ms * MILLISECOND)
    return found


def live_leases(history: History) -> list[str]:
    """Whoever speaks in time of what he holds is heard, whichever server he asks."""
    given = {
        operation.answer.lease: operation
        for operation in views.deliveries(history)
        if operation.answer and operation.answer.lease
    }
    spoken = _spoken_of(history)
    seeks = views.Seeks(history)
    found = []
    for operation in history:
        asked = operation.asked
        pop = given.get(asked.lease)
        if pop is None or not _is_refused(operation):
            continue
        until = pop.asked.at + pop.asked.lease_ms * MILLISECOND
        moved = seeks.between(pop.asked.queue, asked.group, pop.asked.at, operation.ended_at)
        if operation.ended_at > until or moved:
            continue
        places = [*asked.completed, *asked.failed] or [seen.place for seen in pop.seen]
        others = [each for each in spoken[asked.lease] if each is not operation]
        if all(_is_open(place, others, operation.ended_at) for place in places):
            said = operation.answer.error if operation.answer else ""
            found.append(f"I19 {asked.does} at {asked.server}: {asked.lease} is held, but {said}")
    return found


def _is_refused(operation: Operation) -> bool:
    said = operation.answer.error if operation.answer else ""
    return operation.result == "fail" and said.startswith(REFUSALS)


def _spoken_of(history: History) -> defaultdict[str, list[Operation]]:
    """What was said under each lease and may have been heard."""
    found: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in history:
        if operation.asked.does in ("settle", "transact") and operation.result != "fail":
            found[operation.asked.lease].append(operation)
    return found


def _is_open(place: tuple[str, int], said: list[Operation], end: int) -> bool:
    """Whether nothing that was said before ``end`` can have ended the lease on a message."""
    for operation in said:
        asked = operation.asked
        if asked.at < end and (
            place in asked.completed
            or not (asked.completed or asked.failed)
            or any(failed[0] == place[0] for failed in asked.failed)
        ):
            return False
    return True


def _spoken_of_all(history: History) -> dict[tuple[str, str], int]:
    """When the last message that a lease holds of a partition was spoken of.

    A failure counts for the whole partition: it may give the lease back.
    """
    found: dict[tuple[str, str], int] = {}
    for lease, partition, places, said in _held(history):
        left = set(places)
        for operation in said:
            asked = operation.asked
            left -= {*asked.completed}
            unnamed = not (asked.completed or asked.failed)
            if not left or unnamed or any(failed[0] == partition for failed in asked.failed):
                found[lease, partition] = asked.at
                break
    return found


def _held(
    history: History,
) -> Iterator[tuple[str, str, list[tuple[str, int]], list[Operation]]]:
    spoken = _spoken_of(history)
    for operation in views.deliveries(history):
        lease = operation.answer.lease if operation.answer else ""
        for partition in {seen.partition for seen in operation.seen}:
            places = [seen.place for seen in operation.seen if seen.partition == partition]
            yield lease, partition, places, spoken[lease]
