"""Rules for a store on disk: the process ends, in good order or not, and comes back."""

from collections.abc import Callable, Coroutine
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.machine.broker_driver import BrokerDriver
from tests.machine.comparison import QUEUE, compare, compare_payloads
from tests.machine.consume_rules import ConsumingMachine
from tests.machine.machine_state import drafts, groups, partitions, picks, puts
from tests.machine.model import Model, Put
from tests.machine.model_consumer import SECOND

parts = st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0])
writes = st.integers(0, 3)


class CrashingMachine(ConsumingMachine):
    def make_subject(self) -> BrokerDriver:
        return BrokerDriver(on_disk=True)

    @rule()
    @precondition(lambda self: self.model.logs)
    def close_and_reopen(self) -> None:
        self.subject.reopen()
        self.model.restart()
        compare_payloads(self.subject, self.model)

    @rule()
    @precondition(lambda self: self.model.logs)
    def crash_and_reopen(self) -> None:
        self.subject.crash()
        self.model.restart()
        compare_payloads(self.subject, self.model)

    @rule(some=puts, after=writes, keep=parts)
    def crash_during_a_push(self, some: list[Put], after: int, keep: float) -> None:
        call = self.subject.broker.push(QUEUE, drafts(some))
        self._crash_during(call, lambda model: model.push(some, self.now), after, keep)

    @rule(pick=picks, after=writes, keep=parts)
    @precondition(lambda self: self.deliveries)
    def crash_during_an_ack(self, pick: int, after: int, keep: float) -> None:
        delivery = self.pick_delivery(pick, live=True)
        if delivery and delivery.lease_id not in self.model.broken:
            lease, held = str(delivery.lease_id), self.held_by(delivery)
            applied = self._crash_during(
                self.subject.broker.ack(delivery),
                lambda model: model.settle(lease, None, self.now),
                after,
                keep,
            )
            if applied:
                self.witness.released(lease, held)

    @rule(group=groups, partition=partitions, batch=st.integers(1, 3), after=writes, keep=parts)
    @precondition(lambda self: self.model.groups)
    def crash_during_a_pop(
        self, group: str, partition: str, batch: int, after: int, keep: float
    ) -> None:
        if group not in self.model.groups or partition not in self.model.logs:
            return
        place = self.model.place(group, partition)
        # What was deleted is passed over in a write of its own: a crash may come in between.
        if not place.is_ready(self.now) or place.cursor in place.log.deleted:
            return
        until = self.now + self.model.rules.lease_time * SECOND

        def lease(model: Model) -> None:
            model.take(group, partition, batch, lease="nobody knows", expires_at=until)

        call = self.subject.broker.pop(QUEUE, group=group, partition=partition, batch=batch)
        self._crash_during(call, lease, after, keep)

    def _crash_during(
        self,
        call: Coroutine[Any, Any, object],
        change: Callable[[Model], object],
        after: int,
        keep: float,
    ) -> bool:
        """What was answered happened; what was not happened wholly, or not at all."""
        answer = self.subject.crash_during(call, writes=after, keep=keep)
        self.model.restart()
        changed = deepcopy(self.model)
        change(changed)
        if answer is None:
            try:
                compare(self.subject, self.model)
            except AssertionError:
                pass
            else:
                return False
        self.model = changed
        compare(self.subject, self.model)
        compare_payloads(self.subject, self.model)
        return True
