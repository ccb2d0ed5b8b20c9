"""Rules that deliver, move and remove, and let the time pass."""

from collections.abc import Iterable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from skep import Delivery
from skep.errors import MessageNotFound
from skep.model.address import message_id
from skep.model.name import to_datetime
from skep.model.stats import PartitionStats
from tests.machine.comparison import QUEUE, lags_of
from tests.machine.machine_state import (
    GROUPS,
    PARTITIONS,
    groups,
    partitions,
    picks,
    some_partition,
)
from tests.machine.model_consumer import SECOND
from tests.machine.produce_rules import ProducingMachine, got

batches = st.sampled_from([1, 2, 3, 5, 100])
seconds_given = st.none() | st.sampled_from([3, 120])
targets = st.sampled_from(["beginning", "end"]) | st.integers(0, 8)
modes = st.sampled_from(["all", "all", "new"])
passing = st.sampled_from([0.5, 1, 1, 1.3, 1.3, 5, 5, 31, 61, 301, 1000, 90_000])


class ConsumingMachine(ProducingMachine):
    @rule(group=groups, batch=batches, given=seconds_given, mode=modes)
    @precondition(lambda self: self.model.logs)
    def pop(self, group: str, batch: int, given: int | None, mode: str) -> None:
        self._pop(group, batch=batch, given=given, mode=mode)

    @rule(group=groups, partition=partitions, batch=batches)
    @precondition(lambda self: self.model.logs)
    def pop_from_one_partition(self, group: str, partition: str, batch: int) -> None:
        self._pop(group, partition=partition, batch=batch)

    @rule(group=groups, batch=batches, many=st.integers(2, 3))
    @precondition(lambda self: self.model.logs)
    def pop_from_several_partitions(self, group: str, batch: int, many: int) -> None:
        self._pop(group, batch=batch, many=many)

    @rule(group=groups, partition=some_partition, batch=batches)
    @precondition(lambda self: self.model.logs)
    def pop_without_a_lease(self, group: str, partition: str | None, batch: int) -> None:
        self._pop(group, partition=partition, batch=batch, auto_ack=True)

    @rule(pick=picks, batch=batches)
    @precondition(lambda self: self.has_delivery(live=True))
    def pop_again_when_the_lease_has_run_out(self, pick: int, batch: int) -> None:
        if delivery := self.pick_delivery(pick, live=True):
            held = self.model.held(str(delivery.lease_id), self.now)
            self.subject.clock.set(max(place.expires_at for _, place in held.values()))
            self._pop(delivery.group, partition=min(held), batch=batch)

    @rule(pick=picks, to=targets, partition=some_partition)
    @precondition(lambda self: len(self.deliveries) > 2 and self.model.groups)
    def seek(self, pick: int, to: str | int, partition: str | None) -> None:
        group = self._pick_group(pick)
        names = [name for name in self.model.logs if partition in (None, name)]
        if not names:
            return
        if isinstance(to, int):
            ends = {p.name: p.end for p in self._partitions()}
            to = min(to, *(end for name, end in ends.items() if partition in (None, name)))
        self.subject.run(
            self.subject.broker.groups.seek(QUEUE, group, to, partition=partition)  # type: ignore[arg-type]
        )

        self.model.seek(group, names, to)
        self.witness.moved(group, names)

    @rule()
    @precondition(lambda self: self.deliveries)
    def sweep(self) -> None:
        cursors = {
            name: [lags_of(self.subject, group)[name].cursor for group in self.model.groups]
            for name in self.model.logs
        }
        removed = self.subject.run(self.subject.broker.sweep())

        assert removed == self.model.sweep(self.now, cursors)

    @rule(partition=some_partition)
    @precondition(lambda self: len(self.deliveries) > 2 and self.model.groups)
    def clear(self, partition: str | None) -> None:
        names = [name for name in self.model.logs if partition in (None, name)]
        if names:
            removed = self.subject.run(self.subject.broker.queues.clear(QUEUE, partition=partition))

            assert removed == self.model.clear(names)

    @rule(pick=picks, offset=st.integers(0, 12))
    @precondition(lambda self: self.model.logs)
    def delete_a_message(self, pick: int, offset: int) -> None:
        numbers = {p.name: p.number for p in self._partitions()}
        partition = sorted(self.model.logs)[pick % len(self.model.logs)]
        call = self.subject.broker.messages.delete(message_id(numbers[partition], offset))
        if self.model.logs[partition].delete(offset):
            self.subject.run(call)
        else:
            with pytest.raises(MessageNotFound):
                self.subject.run(call)

    @rule(pick=picks)
    @precondition(lambda self: len(self.deliveries) > 2 and self.model.groups)
    def delete_a_group(self, pick: int) -> None:
        group = self._pick_group(pick)
        self.subject.run(self.subject.broker.groups.delete(QUEUE, group))

        self.model.delete_group(group)
        self.witness.moved(group, PARTITIONS)

    @rule(pick=picks)
    @precondition(lambda self: self.model.letters)
    def replay_a_dead_letter(self, pick: int) -> None:
        place = sorted(self.model.letters)[pick % len(self.model.letters)]
        broker = self.subject.broker
        letters = self.subject.run(broker.dead_letters.list(QUEUE, limit=1000))
        (letter,) = (one for one in letters if (one.group, one.partition, one.offset) == place)
        receipts = self.subject.run(broker.dead_letters.replay(QUEUE, [letter.number]))

        assert got(receipts) == [self.model.replay(place, letter.transaction_id, self.now)]

    @rule(seconds=passing)
    @precondition(lambda self: self.deliveries)
    def let_time_pass(self, seconds: float) -> None:
        self.subject.clock.advance(seconds)

    @rule()
    @precondition(lambda self: self.has_delivery(live=True))
    def let_the_next_lease_run_out(self) -> None:
        ends = [
            place.expires_at
            for group in GROUPS
            for place in self.model.groups.get(group, {}).values()
            if place.is_leased(self.now)
        ]
        if ends:
            self.subject.clock.set(min(ends))

    def _pop(
        self,
        group: str,
        *,
        partition: str | None = None,
        batch: int = 1,
        many: int = 1,
        auto_ack: bool = False,
        given: int | None = None,
        mode: str = "all",
    ) -> None:
        delivery = self.subject.run(
            self.subject.broker.pop(
                QUEUE,
                group=group,
                partition=partition,
                batch=batch,
                partitions=many,
                auto_ack=auto_ack,
                lease_seconds=given,
                subscription_mode=mode,
            )
        )
        self.model.contact(group, mode)
        candidates = [name for name in self.model.logs if partition in (None, name)]
        seconds = given or self.model.rules.lease_time
        self.check_delivery(
            delivery, group, candidates, batch=batch, partitions=many, seconds=seconds
        )
        if delivery:
            self._remember(delivery, auto_ack, self.now + seconds * SECOND)

    def _partitions(self) -> Iterable[PartitionStats]:
        return self.subject.run(self.subject.broker.queues.partitions(QUEUE))

    def _pick_group(self, pick: int) -> str:
        return sorted(self.model.groups)[pick % len(self.model.groups)]

    def _remember(self, delivery: Delivery, auto_ack: bool, until: int) -> None:
        assert (delivery.lease_id is None) == auto_ack
        assert delivery.expires_at == (None if auto_ack else to_datetime(until))
        self.witness.delivered(
            delivery.group,
            delivery.lease_id,
            [(message.partition, message.offset) for message in delivery.messages],
            now=self.now,
            until=until,
        )
        if not auto_ack:
            self.deliveries.append(delivery)
