"""Rules that hold of every store alone, so that a fault which all of them share is found, too."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tests.fuzz.admin_operations import Clear, DeleteGroup, DeleteQueue, GiveUp, Seek
from tests.fuzz.concurrent_operations import AckEach, PopTwice
from tests.fuzz.message_operations import AckByName, Pop, Settle, Transact
from tests.fuzz.operation import Operation, Plain, is_refused

QUIET = ("push", "pop", "look", "push-everywhere", "wait")
"""Operations that end no lease."""


class Broken(NamedTuple):
    rule: str
    explanation: str


class Lease(NamedTuple):
    queue: str
    group: str
    expires_at: datetime


@dataclass
class InvariantChecker:
    """Listens to the answers of one store."""

    store: str
    leases: dict[str, Lease] = field(default_factory=dict)
    """By label; those of which nothing was said yet."""
    done: defaultdict[tuple[str, str], set[tuple[str, int]]] = field(
        default_factory=lambda: defaultdict(set)
    )
    """What was acknowledged for sure, by queue and group."""
    owners: dict[str, tuple[str, str]] = field(default_factory=dict)
    answers: dict[str, Plain] = field(default_factory=dict)
    """The first answers to transactions, by key."""

    def hear(self, operation: Operation, answer: Plain, now: datetime) -> Broken | None:
        """What an answer breaks, if it breaks anything."""
        found = self._judge(operation, answer, now)
        self._note(operation, answer)
        if isinstance(operation, Seek | DeleteGroup | DeleteQueue | Clear):
            self._forget(operation.queue)
        if operation.kind not in QUIET:
            self.leases.clear()
        return found

    def _judge(self, operation: Operation, answer: Plain, now: datetime) -> Broken | None:
        if isinstance(operation, Pop):
            return self._pop(operation, answer)
        if isinstance(operation, PopTwice):
            return self._pop_twice(operation, answer)
        if isinstance(operation, AckEach):
            return self._ack_each(operation, answer, now)
        if isinstance(operation, Transact):
            return self._transact(operation, answer)
        return None

    def _note(self, operation: Operation, answer: Plain) -> None:
        if is_refused(answer) or answer == "skipped" or _is_lost(answer):
            return
        if isinstance(operation, GiveUp):
            self._given_up(operation, answer)
        elif isinstance(operation, AckByName) or (
            isinstance(operation, Settle) and answer[0] == len(operation.completed)
        ):
            self._done_by(operation)

    def _pop(self, operation: Pop, answer: Plain) -> Broken | None:
        if answer is None or is_refused(answer):
            return None
        owner = operation.queue, operation.group
        if not operation.auto_ack:
            self.leases[operation.label] = Lease(*owner, answer[2])
            self.owners[operation.label] = owner
        again = {message[:2] for message in answer[-1]} & self.done[owner]
        if again:
            return Broken(
                "delivered-again", f"{operation}\ndelivers what was done: {sorted(again)}"
            )
        return None

    def _pop_twice(self, operation: PopTwice, answer: Plain) -> Broken | None:
        pop = operation.operations[0]
        assert isinstance(pop, Pop)
        given = [one for one in answer if one is not None and not is_refused(one)]
        if len(given) > 1:
            return Broken("leased-twice", f"{operation}\nboth got something")
        return self._pop(pop, given[0]) if given else None

    def _ack_each(self, operation: AckEach, answer: Plain, now: datetime) -> Broken | None:
        acks = [one for one in operation.operations if isinstance(one, Settle | AckByName)]
        lease = self.leases.get(acks[0].label) if acks else None
        lost = [one for one in answer if _is_lost(one)]
        if lease and lost and now < lease.expires_at:
            return Broken("live-lease-refused", f"{operation}\nanswers {lost}")
        if not lost and all(not is_refused(one) for one in answer):
            for one in acks:
                self._done_by(one)
        for give_up in (one for one in operation.operations if isinstance(one, GiveUp)):
            if (give_up.group,) in answer:
                self._given_up(give_up, (give_up.group,))
        return None

    def _transact(self, operation: Transact, answer: Plain) -> Broken | None:
        """A repeated transaction gets the receipts of the first time."""
        unavailable = is_refused(answer) and answer[1] == "Unavailable"
        if operation.key is None or answer == "skipped" or unavailable:
            return None
        first = self.answers.get(operation.key)
        if first is None:
            if not is_refused(answer):
                self.answers[operation.key] = answer
            return None
        if is_refused(answer) or answer[0] != first[0] or not answer[2]:
            words = f"{operation}\nwas answered {first!r}, and then {answer!r}"
            return Broken("repeated-transaction", words)
        return None

    def _given_up(self, operation: GiveUp, groups: tuple[str | None, ...]) -> None:
        for group in groups:
            self.done[operation.queue, str(group)].add((operation.partition, operation.offset))

    def _done_by(self, ack: Settle | AckByName) -> None:
        owner = self.owners.get(ack.label)
        if owner is None:
            return
        if isinstance(ack, Settle):
            self.done[owner] |= ack.completed
        elif ack.status == "completed":
            self.done[owner] |= {*ack.places}

    def _forget(self, queue: str) -> None:
        for owner in [owner for owner in self.done if owner[0] == queue]:
            del self.done[owner]
        for label in [label for label, owner in self.owners.items() if owner[0] == queue]:
            del self.owners[label]


def _is_lost(answer: Plain) -> bool:
    """Whether an ack, by offset or by name, was told that its lease is not held."""
    if is_refused(answer):
        return bool(answer[1] == "LeaseLost")
    return isinstance(answer, tuple) and any(
        isinstance(one, tuple) and one[:1] == (False,) for one in answer
    )
