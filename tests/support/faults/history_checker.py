"""Whether a history keeps the promises. Each function returns what broke one of them.

Pure, linear in the history but for sorting. The numbers are those of the invariants: I1 no loss,
I2 no phantom, I3 no aborted read, I4 offsets, I5 order of a producer, I6 order of delivery,
I7 exclusive leases, I8 durable acks, I9 late acks, I10 dead letters, I11 transactions,
I12 idempotence, I13 fidelity, I17 counters, I19 live leases, I20 one's own writes are read.
"""

from collections import Counter, defaultdict

from tests.support.faults import history_queries as views
from tests.support.faults.history import Operation
from tests.support.faults.history_queries import History, Place
from tests.support.faults.lease_checker import exclusive_leases, late_acks, live_leases


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
        *live_leases(history),
        *dead_letters(history, retry_limit=retry_limit),
        *idempotence(history),
        *fidelity(history),
        *counters(history),
        *own_writes(history),
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
    """A group first sees 0, 1, 2 … of a partition, without a hole but where it was moved, or
    where a message was given up before."""
    reached: defaultdict[tuple[str, str, str], int] = defaultdict(lambda: -1)
    seeks, given_up = views.Seeks(history), views.given_up(history)
    found = []
    for operation in views.deliveries(history):
        asked = operation.asked
        moved = seeks.forward(asked.queue, asked.group, operation.ended_at)
        before: dict[str, int] = {}
        for seen in operation.seen:
            line = asked.queue, asked.group, seen.partition
            passed = range(reached[line] + 1, seen.offset)
            if not moved and any(
                (asked.group, (asked.queue, seen.partition, offset)) not in given_up
                for offset in passed
            ):
                found.append(f"I6 {line}: {seen.offset} came after {reached[line]}")
            if seen.offset <= before.get(seen.partition, -1):
                found.append(f"I6 {line}: {seen.offset} came after {before[seen.partition]}")
            before[seen.partition] = seen.offset
            reached[line] = max(reached[line], seen.offset)
    return found


def nothing_passed_over(history: History) -> list[str]:
    """In the end a group has nothing left, so it has spoken of everything, or given it up."""
    groups = {(op.asked.queue, op.asked.group) for op in history if op.asked.does == "pop"}
    spoken, seeks = views.spoken_of(history), views.Seeks(history)
    return [
        f"I6 {group}: {seen.partition}/{seen.offset} was passed over"
        for queue, group in sorted(groups)
        if not seeks.forward(queue, group)
        for audited, seen in views.audit(history)
        if audited == queue and (group, (queue, *seen.place)) not in spoken
    ]


def durable_acks(history: History) -> list[str]:
    """What was acknowledged, or given up, is not delivered to that group again without a seek."""
    done: defaultdict[tuple[str, Place], list[Operation]] = defaultdict(list)
    for operation in history:
        for place in views.done(operation):
            done[operation.asked.group, place].append(operation)
    seeks = views.Seeks(history)

    def is_done(group: str, place: Place, end: int) -> bool:
        return any(
            op.ended_at < end and not seeks.between(place[0], group, op.asked.at, end)
            for op in done.get((group, place), ())
        )

    return [
        f"I8 {op.asked.group}: {seen.partition}/{seen.offset} came after it was done"
        for op in views.deliveries(history)
        for seen in op.seen
        if is_done(op.asked.group, (op.asked.queue, *seen.place), op.ended_at)
    ]


def dead_letters(history: History, *, retry_limit: int) -> list[str]:
    """A message fails so often and no more; then it is a dead letter, once, and neither
    acknowledged nor delivered any more."""
    letters = {
        (op.asked.group, (op.asked.queue, *seen.place)): op.ended_at
        for op in reversed(history)
        if op.asked.does == "letters"
        for seen in op.seen
    }
    failures: Counter[tuple[str, Place]] = Counter()
    acked: set[tuple[str, Place]] = set()
    given_up: set[tuple[str, Place]] = set()
    seeks = views.Seeks(history)
    for operation in history:
        asked = operation.asked
        if not operation.is_ok or asked.does not in ("settle", "give_up"):
            continue
        given_up.update((asked.group, (asked.settles, *place)) for place in views.dead(operation))
        # Who was moved may fail or acknowledge the same message again.
        if asked.does != "give_up" and not seeks.between(asked.settles, asked.group, 0, 1 << 63):
            failures.update((asked.group, (asked.settles, *place)) for place in asked.failed)
            acked.update((asked.group, (asked.settles, *place)) for place in asked.completed)
    return [
        *_letters_twice(history),
        *_letters_delivered(history, letters),
        *(f"I10 {where} is acked and a dead letter" for where in letters if where in acked),
        *(f"I10 {where} was given up and is no dead letter" for where in given_up - {*letters}),
        *(f"I10 {where} failed {n} times" for where, n in failures.items() if n > retry_limit + 1),
    ]


def _letters_twice(history: History) -> list[str]:
    return [
        f"I10 {operation.asked.group} {place} is a dead letter {n} times"
        for operation in history
        if operation.asked.does == "letters"
        for place, n in Counter(seen.place for seen in operation.seen).items()
        if n > 1
    ]


def _letters_delivered(history: History, letters: dict[tuple[str, Place], int]) -> list[str]:
    """``letters`` says when each was seen first."""
    seeks = views.Seeks(history)
    return [
        f"I10 {op.asked.group} {seen.place} was delivered after it was a dead letter"
        for op in views.deliveries(history)
        for seen in op.seen
        if letters.get((op.asked.group, (op.asked.queue, *seen.place)), 1 << 63) < op.asked.at
        and not seeks.between(op.asked.queue, op.asked.group, 0, op.ended_at)
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
        if not key or (key not in by_key and not operation.is_ok) or _is_unavailable(operation):
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


def counters(history: History) -> list[str]:
    """In the end every server counts what reading gives, and nothing waits."""
    kept = {queue: sum(values.values()) for queue, values in views.audited(history).items()}
    letters = Counter(
        op.asked.queue for op in history if op.asked.does == "letters" for _ in op.seen
    )
    found = []
    for operation in history:
        queue, server = operation.asked.queue, operation.asked.server
        right = {"messages": kept.get(queue, 0), "dead_letters": letters[queue]}
        for name, count in (operation.answer.counts if operation.answer else {}).items():
            if count != right.get(name, 0):
                there = right.get(name, 0)
                found.append(f"I17 {queue} at {server}: {name} is {count}, and there are {there}")
    return found


def own_writes(history: History) -> list[str]:
    """Who is alone with a queue sees what he did, whichever server he asks."""
    return [
        f"I20 {op.asked.queue} at {op.asked.server}: {op.asked.expects}, but {op.answer.got}"
        for op in history
        if op.asked.expects and op.answer and op.is_ok and op.answer.got != op.asked.expects
    ]


def _is_unavailable(operation: Operation) -> bool:
    """Whether it was refused only for now."""
    said = operation.answer.error if operation.answer else ""
    return operation.result == "fail" and said.startswith(("Unavailable", "Overloaded", "Closed"))


def _gaps(offsets: list[int]) -> list[int]:
    return sorted(set(range(max(offsets) + 1)) ^ set(offsets))[:5]


def _parting(first: list[str], second: list[str]) -> str:
    at = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    where = min(len(first), len(second)) if at is None else at
    return f"{where} ({first[where : where + 2]} and {second[where : where + 2]})"
