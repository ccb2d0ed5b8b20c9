"""The state that all rules share: the broker, the model, the witness, and what was handed out."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from skep import Delivery, Draft, Message
from tests.machine.broker_driver import BrokerDriver
from tests.machine.comparison import QUEUE, compare, compare_payloads, lags_of
from tests.machine.invariants import InvariantChecker
from tests.machine.model import Model, Put, Rules
from tests.machine.model_consumer import ModelConsumer

PARTITIONS = ("a", "b")
GROUPS = ("billing", "mail")

RULES = (
    Rules(
        lease_time=30,
        retry_limit=2,
        retry_delay=1000,
        retention_seconds=0,
        completed_retention_seconds=0,
    ),
    Rules(
        lease_time=10,
        retry_limit=1,
        retry_delay=4000,
        retention_seconds=900,
        completed_retention_seconds=60,
    ),
    Rules(
        lease_time=300,
        retry_limit=0,
        retry_delay=0,
        retention_seconds=0,
        completed_retention_seconds=20,
    ),
)

partitions = st.sampled_from(PARTITIONS)
groups = st.sampled_from(GROUPS)
some_partition = st.none() | partitions
picks = st.integers(0, 9)
"""Which of several; taken modulo how many there are."""

ids = st.none() | st.sampled_from([f"t{n}" for n in range(6)])
payloads = st.sampled_from(
    [b"", b"\x00", b'{"n": 1.10}', b"\xff\xfe", "ä€😀".encode()]
) | st.binary(max_size=12)
puts = st.lists(st.builds(Put, partitions, payloads, ids), min_size=1, max_size=6)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.subject = self.make_subject()
        self.witness = InvariantChecker()
        self.deliveries: list[Delivery] = []

    def make_subject(self) -> BrokerDriver:
        return BrokerDriver(on_disk=False)

    @initialize(rules=st.sampled_from(RULES))
    def configure(self, rules: Rules) -> None:
        self.model = Model(rules)
        self.subject.run(
            self.subject.broker.queues.configure(
                QUEUE,
                lease_time=rules.lease_time,
                retry_limit=rules.retry_limit,
                retry_delay=rules.retry_delay,
                retention_enabled=True,
                retention_seconds=rules.retention_seconds,
                completed_retention_seconds=rules.completed_retention_seconds,
            )
        )

    @invariant()
    def nothing_differs(self) -> None:
        compare(self.subject, self.model)
        for group in self.model.groups:
            for partition, lag in lags_of(self.subject, group).items():
                self.witness.cursor_is(group, partition, lag.cursor)

    @rule()
    @precondition(lambda self: self.model.logs)
    def read_everything_again(self) -> None:
        compare_payloads(self.subject, self.model)

    def teardown(self) -> None:
        self.subject.close()

    @property
    def now(self) -> int:
        return self.subject.clock.now()

    def is_live(self, delivery: Delivery) -> bool:
        return bool(self.model.held(str(delivery.lease_id), self.now))

    def has_delivery(self, *, live: bool) -> bool:
        return any(self.is_live(delivery) is live for delivery in self.deliveries)

    def pick_delivery(self, pick: int, *, live: bool) -> Delivery | None:
        """One of the deliveries whose lease is held, or of those whose is not; newest first."""
        found = [d for d in reversed(self.deliveries) if self.is_live(d) is live]
        return found[pick % len(found)] if found else None

    def check_delivery(
        self, delivery: Delivery | None, group: str, candidates: Sequence[str], **asked: int
    ) -> None:
        """Compare a delivery with what the model would give, and make it so in the model.

        Which of the ready partitions a pop serves is the scheduler's to choose.
        """
        budget, left, seconds = asked["batch"], asked["partitions"], asked["seconds"]
        until = self.now + seconds * 1_000_000
        waiting = {name: self.model.place(group, name) for name in candidates}
        ready = {name for name, place in waiting.items() if place.is_ready(self.now)}
        truncated = 0
        for name, messages in by_partition(delivery.messages if delivery else []):
            assert name in ready, f"{name} was not ready for {group}"
            ready.remove(name)
            truncated += waiting[name].truncated()
            run = self.model.take(
                group,
                name,
                budget,
                lease=delivery.lease_id if delivery else None,
                expires_at=until,
            )
            assert [message.offset for message in messages] == run.offsets
            assert {message.attempt for message in messages} == {run.attempt}
            _compare_payloads(messages, waiting[name])
            budget, left = budget - len(messages), left - 1
        if delivery:
            assert delivery.truncated == truncated
        self._check_passed_over(
            group, ready, complete=delivery is None, full=not budget or not left
        )

    def _check_passed_over(
        self, group: str, ready: set[str], *, complete: bool, full: bool
    ) -> None:
        """A partition that was ready and not served held nothing but deleted messages."""
        lags = lags_of(self.subject, group)
        for name in ready:
            place, cursor = self.model.place(group, name), lags[name].cursor
            passed = range(place.cursor, cursor)
            assert all(o in place.log.deleted or o in place.done for o in passed)
            if passed:
                self.model.pass_over(group, name, cursor)
            assert full or passed, f"{name} was ready for {group} and was left out"
            assert not complete or not place.is_ready(self.now)


def by_partition(messages: Sequence[Message]) -> Iterator[tuple[str, list[Message]]]:
    for name, some in groupby(messages, key=lambda message: message.partition):
        yield name, list(some)


def drafts(some: Sequence[Put]) -> list[Draft]:
    return [Draft(put.payload, put.partition, put.chosen_id) for put in some]


def _compare_payloads(messages: Sequence[Message], place: ModelConsumer) -> None:
    for message in messages:
        entry = place.log.entries[message.offset]
        assert (message.payload, message.chosen_id) == (entry.payload, entry.chosen_id)
