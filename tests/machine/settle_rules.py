"""Rules that say what became of a delivery, in time or too late."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from skep import Delivery, Message, Settlement, Verdict
from skep.errors import LeaseLost
from skep.model.name import from_datetime
from skep.model.operation import Status
from tests.machine.machine_state import QueueMachine, picks
from tests.machine.model import Lost, Reports
from tests.machine.model_consumer import SECOND, ModelConsumer, Report, Settled

statuses: st.SearchStrategy[Status] = st.sampled_from(
    ("completed", "failed", "failed", "retry", "dead_letter")
)
errors = st.sampled_from(["boom", "late"])
chosen = st.lists(picks, min_size=1, max_size=4)


class SettlingMachine(QueueMachine):
    @rule(pick=picks)
    @precondition(lambda self: self.has_delivery(live=True))
    def ack(self, pick: int) -> None:
        if delivery := self.pick_delivery(pick, live=True):
            held = self.held_by(delivery)
            try:
                settlement = self.subject.run(self.subject.broker.ack(delivery))
            except LeaseLost:
                self.check_lost(delivery, None)
                return

            settled = self.model.settle(str(delivery.lease_id), None, self.now)
            self.check_settlement(delivery, settlement, settled, held)

    @rule(pick=picks, which=chosen)
    @precondition(lambda self: self.has_delivery(live=True))
    def ack_some_in_any_order(self, pick: int, which: list[int]) -> None:
        if delivery := self.pick_delivery(pick, live=True):
            messages = _chosen(delivery, which)
            self._settle(delivery, [(message, "completed", "") for message in messages])

    @rule(pick=picks, error=errors)
    @precondition(lambda self: self.has_delivery(live=True))
    def fail(self, pick: int, error: str) -> None:
        if delivery := self.pick_delivery(pick, live=True):
            self._settle(delivery, [(message, "failed", error) for message in delivery.messages])

    @rule(pick=picks, which=chosen, error=errors)
    @precondition(lambda self: self.has_delivery(live=True))
    def fail_some(self, pick: int, which: list[int], error: str) -> None:
        if delivery := self.pick_delivery(pick, live=True):
            self._settle(delivery, [(m, "failed", error) for m in _chosen(delivery, which)])

    @rule(pick=picks, which=st.lists(st.tuples(picks, statuses), min_size=1, max_size=5))
    @precondition(lambda self: self.has_delivery(live=True))
    def say_something_of_each(self, pick: int, which: list[tuple[int, Status]]) -> None:
        if delivery := self.pick_delivery(pick, live=True):
            by_number = {number % len(delivery.messages): status for number, status in which}
            self._settle(
                delivery,
                [(delivery.messages[n], status, "mixed") for n, status in by_number.items()],
            )

    @rule(pick=picks, seconds=st.sampled_from([1, 20, 500]))
    @precondition(lambda self: self.has_delivery(live=True))
    def extend(self, pick: int, seconds: int) -> None:
        if delivery := self.pick_delivery(pick, live=True):
            try:
                until = self.subject.run(self.subject.broker.extend(delivery, seconds))
            except LeaseLost:
                self.check_lost(delivery, None)
                return

            ends = from_datetime("until", until)
            assert ends == self.model.extend(str(delivery.lease_id), seconds, self.now)
            self.witness.extended(str(delivery.lease_id), ends)

    @rule(pick=picks, late=st.sampled_from(["ack", "fail", "extend", "some"]))
    @precondition(lambda self: self.has_delivery(live=False))
    def come_too_late(self, pick: int, late: str) -> None:
        if delivery := self.pick_delivery(pick, live=False):
            with pytest.raises(LeaseLost):
                self.subject.run(self._late(delivery, late))

    def held_by(self, delivery: Delivery | None) -> set[str]:
        """The partitions that a delivery's lease holds now."""
        return set(self.model.held(str(delivery.lease_id), self.now)) if delivery else set()

    def check_lost(self, delivery: Delivery | None, reports: Reports) -> None:
        assert delivery is not None
        with pytest.raises(Lost):
            self.model.check_lease(str(delivery.lease_id), reports, self.now)

    def check_settlement(
        self,
        delivery: Delivery,
        settlement: Settlement,
        settled: Mapping[str, Settled],
        held: set[str],
    ) -> None:
        """Compare the answer, and tell the witness."""
        assert settlement.completed == sum(len(one.completed) for one in settled.values())
        assert settlement.dead_letters == sum(len(one.dead) for one in settled.values())
        assert settlement.released == all(p in settled and settled[p].released for p in held)
        self._check_retry(delivery, settlement, settled)
        lease = str(delivery.lease_id)
        for name, one in settled.items():
            gone = [*one.completed, *one.dead]
            self.witness.completed(delivery.group, ((name, offset) for offset in gone))
        self.witness.released(lease, (name for name, one in settled.items() if one.released))

    async def _late(self, delivery: Delivery, late: str) -> None:
        broker = self.subject.broker
        if late == "ack":
            await broker.ack(delivery)
        elif late == "some":
            await broker.ack(delivery, delivery.messages[:1])
        elif late == "fail":
            await broker.fail(delivery)
        else:
            await broker.extend(delivery, 100)

    def _settle(self, delivery: Delivery, said: list[tuple[Message, Status, str]]) -> None:
        verdicts = [Verdict(m.partition_number, m.offset, status, e) for m, status, e in said]
        reports: dict[str, list[Report]] = {}
        for message, status, error in said:
            reports.setdefault(message.partition, []).append(Report(message.offset, status, error))
        held = self.held_by(delivery)
        try:
            settlement = self.subject.run(self.subject.broker.settle(delivery, verdicts))
        except LeaseLost:
            self.check_lost(delivery, reports)
            return
        settled = self.model.settle(str(delivery.lease_id), reports, self.now)
        self.check_settlement(delivery, settlement, settled, held)

    def _check_retry(
        self, delivery: Delivery, settlement: Settlement, settled: Mapping[str, Settled]
    ) -> None:
        """A batch that failed as a whole comes again after a delay that doubles, with jitter."""
        first = self.model.rules.retry_delay * SECOND // 1000
        delays = {
            name: first * 2**one.failed_before
            for name, one in settled.items()
            if one.failed_before is not None
        }
        assert (settlement.retry_at is not None) == bool(delays)
        if settlement.retry_at is None:
            return
        least = min(delays.values())
        waits = from_datetime("retry_at", settlement.retry_at) - self.now
        assert least <= waits <= least * 1.2
        for name, delay in delays.items():
            place = self._place(delivery, name)
            place.ready_at = self.now + (round(waits * delay / least) if least else 0)

    def _place(self, delivery: Delivery, partition: str) -> ModelConsumer:
        return self.model.place(delivery.group, partition)


def _chosen(delivery: Delivery, which: Iterable[int]) -> list[Message]:
    numbers = dict.fromkeys(number % len(delivery.messages) for number in which)
    return [delivery.messages[number] for number in numbers]
