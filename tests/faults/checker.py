"""Whether a history keeps the promises. Each function returns what broke one of them.

Pure, linear in the history but for sorting. The numbers are those of the invariants: I1 no loss,
I2 no phantom, I3 no aborted read, I4 offsets, I5 order of a producer, I6 order of delivery,
I7 exclusive leases, I8 durable acks, I9 late acks, I10 dead letters, I11 transactions,
I12 idempotence, I13 fidelity.
"""

from collections import Counter, defaultdict

from tests.faults import views
from tests.faults.views import History, Place

MILLISECOND = 1_000_000
"""In the nanoseconds of a history."""


def check(
    history: History, *, retry_limit: int = 3, copies: tuple[str, str] | None = None
) -> list[str]:
    """Every violation in the history of a run that ended with an audit."""
    found = [
        *no_loss(history),
        *no_phantom(history),
        *no_aborted_read(history),
        *one_value_per_offset(history),
        *dense_offsets(history),
        *producer_order(history),
        *delivery_order(history),
        *nothing_passed_over(history),
        *exclusive_leases(history),
        *durable_acks(history),
        *late_acks(history),
        *dead_letters(history, retry_limit=retry_limit),
        *idempotence(history),
        *fidelity(history),
    ]
    return found + (copied(history, *copies) if copies else [])


def no_loss(history: History) -> list[str]:
    kept = views.audited(history)
    return [
        f"I1 {queue}: {seen.value} was answered and is not there"
        for queue, seen in views.answered(history)
        if seen.value not in kept[queue]
    ]


def no_phantom(history: History) -> list[str]:
    sent = views.values(history, ("ok", "fail", "info"))
    return [
        f"I2 {queue}: {value} was never sent"
        for queue, values in views.audited(history).items()
        for value in values
        if value not in sent[queue]
    ]


def no_aborted_read(history: History) -> list[str]:
    """What was refused, and never sent again with success, has been seen by nobody."""
    refused, others = views.values(history, ("fail",)), views.values(history, ("ok", "info"))
    return [
        f"I3 {queue}: {seen.value} was refused and is there"
        for queue, seen in views.shown(history)
        if seen.value in refused[queue] and seen.value not in others[queue]
    ]


def one_value_per_offset(history: History) -> list[str]:
    """A place holds one message, whoever looks and whenever."""
    values: dict[Place, str] = {}
    found = []
    for queue, seen in views.shown(history):
        known = values.setdefault((queue, *seen.place), seen.value)
        if known != seen.value:
            found.append(f"I4 {queue}/{seen.partition}/{seen.offset}: {known} and {seen.value}")
    return found


def dense_offsets(history: History) -> list[str]:
    found = []
    for (queue, partition), offsets in views.audited_offsets(history).items():
        if offsets != list(range(len(offsets))):
            found.append(f"I4 {queue}/{partition}: offsets are not dense: {_gaps(offsets)}")
    return found


def producer_order(history: History) -> list[str]:
    """A producer that waits for each answer finds its messages in the order it sent them."""
    last: dict[tuple[str, str, str], int] = {}
    first_sent: set[tuple[str, str]] = set()
    found = []
    for operation in views.pushes(history):
        asked = operation.asked
        for seen in operation.seen if asked.client else ():
            if seen.id and (asked.queue, seen.value) in first_sent:
                continue
            first_sent.add((asked.queue, seen.value))
            line = asked.client, asked.queue, seen.partition
            if seen.offset <= last.get(line, -1):
                found.append(f"I5 {asked.client} in {seen.partition}: {seen.value} went before")
            last[line] = seen.offset
    return found


def delivery_order(history: History) -> list[str]:
    """A group first sees 0, 1, 2 … of a partition, without a hole."""
    reached: defaultdict[tuple[str, str, str], int] = defaultdict(lambda: -1)
    found = []
    for operation in views.deliveries(history):
        asked = operation.asked
        before: dict[str, int] = {}
        for seen in operation.seen:
            line = asked.queue, asked.group, seen.partition
            if seen.offset > reached[line] + 1:
                found.append(f"I6 {line}: {seen.offset} came after {reached[line]}")
            if seen.offset <= before.get(seen.partition, -1):
                found.append(f"I6 {line}: {seen.offset} came after {before[seen.partition]}")
            before[seen.partition] = seen.offset
            reached[line] = max(reached[line], seen.offset)
    return found


def nothing_passed_over(history: History) -> list[str]:
    """In the end a group has nothing left, so it has spoken of everything, or given it up."""
    groups = {(op.asked.queue, op.asked.group) for op in history if op.asked.does == "pop"}
    spoken = views.spoken_of(history)
    return [
        f"I6 {group}: {seen.partition}/{seen.offset} was passed over"
        for queue, group in sorted(groups)
        for audited, seen in views.audit(history)
        if audited == queue and (group, (queue, *seen.place)) not in spoken
    ]


def exclusive_leases(history: History) -> list[str]:
    """Nobody gets a partition before the time of its holder is over, if he has said nothing.

    To ask for more time is to say nothing; whoever gets it holds on from when he asked.
    """
    spoke: dict[str, int] = {}
    extended: defaultdict[str, int] = defaultdict(int)
    for operation in history:
        asked = operation.asked
        if asked.does == "extend" and operation.is_ok:
            extended[asked.lease] = asked.at + asked.lease_ms * MILLISECOND
        elif asked.lease and asked.does not in ("pop", "extend"):
            spoke.setdefault(asked.lease, asked.at)
    holders: dict[tuple[str, str, str], tuple[str, int]] = {}
    found = []
    for operation in views.deliveries(history):
        asked, lease = operation.asked, operation.answer.lease if operation.answer else ""
        for partition in {seen.partition for seen in operation.seen}:
            line = asked.queue, asked.group, partition
            holder, until = holders.get(line, ("", 0))
            quiet = spoke.get(holder, 1 << 63) > operation.ended_at
            if holder and quiet and operation.ended_at < max(until, extended[holder]):
                found.append(f"I7 {line}: {lease} was given while {holder} was held")
            if lease:
                holders[line] = lease, asked.at + asked.lease_ms * MILLISECOND
    return found


def durable_acks(history: History) -> list[str]:
    """What was acknowledged, or given up, is not delivered to that group again."""
    done_at: dict[tuple[str, Place], int] = {}
    for operation in history:
        for place in views.done(operation):
            where = operation.asked.group, place
            done_at[where] = min(operation.ended_at, done_at.get(where, 1 << 63))
    return [
        f"I8 {operation.asked.group}: {seen.partition}/{seen.offset} came after it was done"
        for operation in views.deliveries(history)
        for seen in operation.seen
        if done_at.get((operation.asked.group, (operation.asked.queue, *seen.place)), 1 << 63)
        < operation.ended_at
    ]


def late_acks(history: History) -> list[str]:
    """Whoever speaks when his time is over is not heard."""
    until = {
        operation.answer.lease: operation.ended_at + operation.asked.lease_ms * MILLISECOND
        for operation in views.deliveries(history)
        if operation.answer and operation.answer.lease
    }
    found = []
    for operation in history:
        asked, last = operation.asked, until.get(operation.asked.lease, 1 << 63)
        # The repetition of a transaction is answered at any time.
        if operation.is_ok and not asked.key and asked.at > last:
            found.append(f"I9 {asked.lease} was heard after its time")
        if asked.does == "extend" and operation.result != "fail":
            until[asked.lease] = max(last, operation.ended_at + asked.lease_ms * MILLISECOND)
    return found


def dead_letters(history: History, *, retry_limit: int) -> list[str]:
    """A message fails so often and no more; then it is a dead letter, once, and not acked."""
    letters = Counter(
        (operation.asked.group, seen.place)
        for operation in history
        if operation.asked.does == "letters"
        for seen in operation.seen
    )
    failures: Counter[tuple[str, tuple[str, int]]] = Counter()
    acked: set[tuple[str, tuple[str, int]]] = set()
    given_up: set[tuple[str, tuple[str, int]]] = set()
    for operation in history:
        group = operation.asked.group
        if operation.is_ok and operation.asked.does == "settle":
            failures.update((group, place) for place in operation.asked.failed)
            acked.update((group, place) for place in operation.asked.completed)
            given_up.update((group, place) for place in views.dead(operation))
    return [
        *(f"I10 {where} is a dead letter {n} times" for where, n in letters.items() if n > 1),
        *(f"I10 {where} is acked and a dead letter" for where in letters if where in acked),
        *(f"I10 {where} was given up and is no dead letter" for where in given_up - {*letters}),
        *(f"I10 {where} failed {n} times" for where, n in failures.items() if n > retry_limit + 1),
    ]


def copied(history: History, source: str, target: str) -> list[str]:
    """Whoever moves messages in transactions leaves the same messages, in the same order."""
    lines: dict[str, defaultdict[str, list[str]]] = {
        source: defaultdict(list),
        target: defaultdict(list),
    }
    for queue, seen in views.audit(history):
        if queue in lines:
            lines[queue][seen.partition].append(seen.value)
    return [
        f"I11 {partition}: {source} and {target} part at {_parting(*pair)}"
        for partition in {*lines[source], *lines[target]}
        if (pair := (lines[source][partition], lines[target][partition])) and pair[0] != pair[1]
    ]


def idempotence(history: History) -> list[str]:
    """The same id, and the same key, always get the first answer."""
    by_id: dict[tuple[str, str, str], int] = {}
    by_key: dict[str, list[tuple[str, int]]] = {}
    found = [
        f"I12 {queue}: {seen.id} is in two places"
        for queue, seen in views.answered(history)
        if seen.id
        and by_id.setdefault((queue, seen.partition, seen.id), seen.offset) != seen.offset
    ]
    for operation in history:
        key, places = operation.asked.key, [seen.place for seen in operation.seen]
        if not key or (key not in by_key and not operation.is_ok):
            continue
        if by_key.setdefault(key, places) != places and operation.result != "info":
            found.append(f"I12 {key} was answered {by_key[key]} and {places}")
    return found + [
        f"I12 {queue}: {value} is there {n} times"
        for queue, values in views.audited(history).items()
        for value, n in values.items()
        if n > 1
    ]


def fidelity(history: History) -> list[str]:
    sent = {seen.value: seen.digest for op in history for seen in op.asked.sent}
    return [
        f"I13 {queue}/{seen.partition}/{seen.offset}: {seen.value} was changed"
        for queue, seen in views.shown(history)
        if sent.get(seen.value, seen.digest) != seen.digest
    ]


def _gaps(offsets: list[int]) -> list[int]:
    return sorted(set(range(max(offsets) + 1)) ^ set(offsets))[:5]


def _parting(first: list[str], second: list[str]) -> str:
    at = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    where = min(len(first), len(second)) if at is None else at
    return f"{where} ({first[where : where + 2]} and {second[where : where + 2]})"
